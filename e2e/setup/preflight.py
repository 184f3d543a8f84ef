"""What a machine must have before set-up starts; each lack is one line with its remedy."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from e2e.setup.place import CACHE, ROOT
from e2e.setup.stage import SetupError

GO_MINIMUM = (1, 26)
FREE_GB_FOR_CACHE = 14
FREE_GB_FOR_CHECKOUT = 2
_PACKAGES = {"gcc": "gcc libc6-dev", "g++": "g++", "make": "make"}


def check(*, needs_go: bool) -> None:
    """Checks tools, rights and disk, and installs Debian packages where that is enough.

    Raises:
        SetupError: Something is missing that this command cannot install.
    """
    _check_system()
    _check_disk()
    _install_packages()
    if needs_go:
        _check_go()


def _check_system() -> None:
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise SetupError(f"needs Linux on x86_64, this is {platform.system()} {platform.machine()}")
    if os.geteuid():
        raise SetupError("the cluster needs root - run the same command with sudo")
    if importlib.util.find_spec("ensurepip") is None:
        _apt("python3-venv")


def _check_disk() -> None:
    for path, need in ((CACHE, FREE_GB_FOR_CACHE), (ROOT, FREE_GB_FOR_CHECKOUT)):
        path.mkdir(parents=True, exist_ok=True)
        free_gb = shutil.disk_usage(path).free / 1e9
        filled = path == CACHE and (CACHE / "uv").exists()
        if free_gb < (FREE_GB_FOR_CHECKOUT if filled else need):
            raise SetupError(
                f"{path} has {free_gb:.1f} GB free, {need} GB are needed - "
                "free some, or point PACELINE_CACHE at a larger disk"
            )


def _install_packages() -> None:
    missing = [package for tool, package in _PACKAGES.items() if shutil.which(tool) is None]
    if missing:
        _apt(*" ".join(missing).split())


def _apt(*packages: str) -> None:
    names = " ".join(packages)
    if not Path("/usr/bin/apt-get").exists():
        raise SetupError(f"missing: {names} - install them with your package manager")
    print(f"setup: installing {names}", flush=True)
    for command in (["apt-get", "update", "-q"], ["apt-get", "install", "-qy", *packages]):
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no output"])[-1]
            raise SetupError(f"{' '.join(command)}: {last} - install {names} by hand")


def _check_go() -> None:
    remedy = f"install Go >= {GO_MINIMUM[0]}.{GO_MINIMUM[1]} (https://go.dev/dl) and put it on PATH"
    if shutil.which("go") is None:
        raise SetupError(f"go is missing, the test cluster is compiled with it - {remedy}")
    text = subprocess.run(["go", "version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"go(\d+)\.(\d+)", text)
    if found is None or (int(found[1]), int(found[2])) < GO_MINIMUM:
        raise SetupError(f"{text.strip()} is too old - {remedy}")
