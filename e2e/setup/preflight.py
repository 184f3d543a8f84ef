"""What a machine must have for the work that is left; each lack is one line with its remedy.

Asked is only for what the goals and the stages that are not done yet need: a check of style
needs no root, and taking things down no free disk.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from e2e.cluster import debian
from e2e.cluster.errors import ClusterError
from e2e.cluster.progress import Progress
from e2e.setup import place
from e2e.setup.stage import SetupError, Stage

GO_MINIMUM = (1, 26)
_PACKAGES: Mapping[str, tuple[str, ...]] = {"gcc": ("gcc", "libc6-dev"), "g++": ("g++",)}
"""Debian packages of the tools that stages name."""


def check(goals: set[str], pending: Sequence[Stage]) -> None:
    """Checks system, rights, disk and tools, and installs Debian packages where that is enough.

    Args:
        goals: What is asked for.
        pending: The stages that are not done.

    Raises:
        SetupError: Something is missing that this command cannot install.
    """
    _check_system(goals)
    _check_disk(pending)
    _check_tools(pending)


def _check_system(goals: set[str]) -> None:
    found = f"{platform.system()} {platform.machine()}"
    if goals & {"engine", "cluster"} and found != "Linux x86_64":
        raise SetupError(f"needs Linux x86_64, this is {found} - run it on another machine")
    if "cluster" in goals and os.geteuid():
        raise SetupError("the cluster needs root - run the same command with sudo")


def _check_disk(pending: Sequence[Stage]) -> None:
    """Adds up what is left to be filled, by file system."""
    for path, need_gb in needs_by_device(pending).values():
        free_gb = shutil.disk_usage(_nearest(path)).free / 1e9
        if free_gb < need_gb:
            names = ", ".join(stage.name for stage in pending if stage.disk_gb)
            raise SetupError(
                f"{path} has {free_gb:.1f} GB free, {need_gb:.1f} GB are needed for {names} - "
                "free some, or point PACELINE_CACHE at a larger disk"
            )


def needs_by_device(pending: Sequence[Stage]) -> dict[int, tuple[Path, float]]:
    """GB that the stages fill on each file system, with one directory on it."""
    found: dict[int, tuple[Path, float]] = {}
    for stage in pending:
        for path, need_gb in stage.disk_gb.items():
            first, sum_gb = found.get(place.device(path), (path, 0.0))
            found[place.device(path)] = (first, sum_gb + need_gb)
    return found


def _nearest(path: Path) -> Path:
    return next(each for each in (path, *path.parents) if each.exists())


def _check_tools(pending: Sequence[Stage]) -> None:
    tools = {tool for stage in pending for tool in stage.tools}
    missing = [tool for tool in sorted(tools & set(_PACKAGES)) if shutil.which(tool) is None]
    packages = [package for tool in missing for package in _PACKAGES[tool]]
    if "venv" in tools and not _makes_environments():
        packages.append(f"python{sys.version_info.major}.{sys.version_info.minor}-venv")
    if packages:
        _install(packages)
        importlib.invalidate_caches()
    if "venv" in tools and not _makes_environments():
        remedy = "use the distribution's python3, or one with ensurepip"
        raise SetupError(f"{sys.executable} cannot make environments - {remedy}")
    if "go" in tools:
        _check_go()


def _makes_environments() -> bool:
    return importlib.util.find_spec("ensurepip") is not None


def _install(packages: Sequence[str]) -> None:
    try:
        debian.install(packages, Progress())
    except ClusterError as error:
        raise SetupError(f"{error.problem} - {error.remedy}") from error


def _check_go() -> None:
    remedy = f"install Go >= {GO_MINIMUM[0]}.{GO_MINIMUM[1]} (https://go.dev/dl) and put it on PATH"
    if shutil.which("go") is None:
        raise SetupError(f"go is missing, the test cluster is compiled with it - {remedy}")
    text = subprocess.run(["go", "version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"go(\d+)\.(\d+)", text)
    if found is None or (int(found[1]), int(found[2])) < GO_MINIMUM:
        raise SetupError(f"{text.strip()} is too old - {remedy}")
