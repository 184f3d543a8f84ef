"""The two Python environments: a small one for the operator, one with torch."""

from __future__ import annotations

import ast
import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from e2e.setup import place
from e2e.setup.place import CACHE, ROOT
from e2e.setup.stage import Shell, Stage

UV_VERSION = "0.13.9"
BOOTSTRAP = CACHE / f"uv-{UV_VERSION}-py{sys.version_info.major}.{sys.version_info.minor}"
"""A small environment with pip and uv, from which everything else is fetched."""

_RETRY = "check the connection to your package index and run the same command again"
_FETCHED_GB = {"operator": 0.4, "engine": 6.0}
"""Measured sizes of the members' packages, unpacked."""

_UV_VARIABLES: Mapping[str, str] = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
}


def uv_stage() -> Stage:
    """Installs uv, which fills environments from a cache in seconds."""
    binary = BOOTSTRAP / "bin" / "uv"

    def run(shell: Shell) -> None:
        shell.run(
            [sys.executable, "-m", "venv", "--clear", BOOTSTRAP], remedy="install python3-venv"
        )
        shell.run(
            [BOOTSTRAP / "bin" / "python", "-m", "pip", "install", "-q", f"uv=={UV_VERSION}"],
            remedy=_RETRY,
        )

    return Stage("uv", run, is_done=binary.exists, tools=("venv",), disk_gb={CACHE: 0.1})


def environment_stage(member: str, *, as_is: bool = False) -> Stage:
    """Creates `.venv-<member>` with pinned versions and the member itself, editable.

    Args:
        member: Name of the member.
        as_is: Whether one that is whole is used though its pins have changed since: enough to
            take things down, where there may be no disk or network left for a new one.
    """
    venv, stamp = ROOT / f".venv-{member}", ROOT / f".venv-{member}" / "complete"
    key = _key(member)

    def run(shell: Shell) -> None:
        uv = BOOTSTRAP / "bin" / "uv"
        env = _uv_environment()
        shell.run(
            [uv, "venv", "--clear", "--python", sys.executable, venv],
            remedy="remove the folder and run again",
            env=env,
        )
        shell.run(
            # Compiled once here, or every process of the tests would do it again at its start.
            [
                uv,
                "pip",
                "install",
                "--compile-bytecode",
                "--python",
                venv,
                *_requirements(ROOT / member),
            ],
            remedy=_RETRY,
            env=env,
        )
        stamp.write_text(key)

    return Stage(
        f"{member}-env",
        run,
        needs=("uv",),
        is_done=lambda: stamp.exists() and (as_is or stamp.read_text() == key),
        disk_gb=_disk_gb(_FETCHED_GB[member]),
    )


def _requirements(member: Path) -> list[str | Path]:
    group = f"{member / 'pyproject.toml'}:dev"
    return ["-c", member / "constraints.txt", "-e", member, "--group", group]


def _key(member: str) -> str:
    digest = hashlib.sha256(f"{sys.version}{ROOT}".encode())
    for name in ("pyproject.toml", "constraints.txt"):
        digest.update((ROOT / member / name).read_bytes())
    return digest.hexdigest()


def _uv_environment() -> dict[str, str]:
    """A cache of uv's own, and the index and roots that pip is configured to use."""
    configured = index_variables(_pip_configuration())
    env = {"UV_CACHE_DIR": str(CACHE / "uv"), "UV_LINK_MODE": _link_mode()}
    return {**env, **{name: v for name, v in configured.items() if name not in os.environ}}


def _pip_configuration() -> str:
    """What pip's files and variables say, one `section.name='value'` a line."""
    command = [str(BOOTSTRAP / "bin" / "python"), "-m", "pip", "config", "list"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def index_variables(configuration: str) -> dict[str, str]:
    """Uv's variables for pip's options; pip's own order of weight is kept.

    Args:
        configuration: What `pip config list` prints.
    """
    found: dict[str, str] = {}
    for section in ("global", "install", ":env:"):
        for line in configuration.splitlines():
            key, separator, value = line.partition("=")
            variable = _UV_VARIABLES.get(key.removeprefix(f"{section}."))
            if separator and variable:
                # A list spans lines in pip's files and is one line of words for uv.
                found[variable] = " ".join(ast.literal_eval(value).split())
    return found


def _disk_gb(fetched_gb: float) -> dict[Path, float]:
    """Packages lie in uv's cache, and once more in the checkout where they are copied."""
    if _link_mode() == "hardlink":
        return {CACHE: fetched_gb}
    return {CACHE: fetched_gb, ROOT: fetched_gb}


def _link_mode() -> str:
    """Hard links need one file system for the cache and the checkout."""
    same = place.device(CACHE) == place.device(ROOT)
    return "hardlink" if same else "copy"
