"""Debian's Prometheus server, unpacked into the cache: tests start it, the machine does not.

The package is not installed: that would start a service and bring the scripts of a web page.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from e2e.setup.place import CACHE
from e2e.setup.stage import SetupError, Shell, Stage

PACKAGE = "prometheus"
VERSIONS = ("2.42", "2.53", "3.5")
"""Minor versions that Debian has; the first was tried, the others have the same interface."""
PROGRAM = CACHE / "bin" / "prometheus" / "prometheus"
TOOL = PROGRAM.with_name("promtool")
_REMEDY = "install it (`apt-get install prometheus`), or check the connection to your mirror"


def prometheus_stage() -> Stage:
    """Finds the program on the machine, or fetches and unpacks its package."""
    return Stage(PACKAGE, _provide, is_done=_is_there, disk_gb={CACHE: 0.3})


def _is_there() -> bool:
    return PROGRAM.exists() and PROGRAM.with_name(TOOL.name).exists()


def _provide(shell: Shell) -> None:
    installed = shutil.which(PACKAGE)
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=PROGRAM.parent) as folder:
        found = Path(installed) if installed else _unpacked(shell, Path(folder))
        _check(found)
        for program in (found, found.resolve().with_name(TOOL.name)):
            whole = Path(folder) / "whole"
            try:
                shutil.copy2(program, whole)
            except FileNotFoundError as error:
                raise SetupError(f"{program} is missing - {_REMEDY}") from error
            whole.rename(PROGRAM.with_name(program.name))


def _unpacked(shell: Shell, folder: Path) -> Path:
    if shutil.which("apt-get") is None:
        raise SetupError("prometheus is missing, tests of that source of metrics run it - "
                         "install it with your package manager and run again")  # fmt: skip
    command = ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", PACKAGE]
    try:
        shell.run(command, remedy=_REMEDY, cwd=folder)
    except SetupError:
        # A fresh machine has no list of packages yet, an old one may name what is gone.
        shell.run(["apt-get", "-q", "-o", "DPkg::Lock::Timeout=300", "update"], remedy=_REMEDY)
        shell.run(command, remedy=_REMEDY, cwd=folder)
    (package,) = folder.glob("*.deb")
    shell.run(["dpkg-deb", "--extract", package, folder / "root"], remedy=_REMEDY)
    return folder / "root/usr/bin/prometheus"


def _check(program: Path) -> None:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    text = done.stdout + done.stderr
    found = re.search(r"version (\d+\.\d+)", text)
    if done.returncode or found is None:
        raise SetupError(f"{program}: --version says {text.strip()[:200]!r} - {_REMEDY}")
    if found[1] not in VERSIONS:
        raise SetupError(
            f"prometheus {found[1]} is none of {', '.join(VERSIONS)} - put one of them at {PROGRAM}"
        )
