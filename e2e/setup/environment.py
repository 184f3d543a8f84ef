"""The two Python environments: a small one for the operator, one with torch."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

from e2e.setup.place import CACHE, ROOT
from e2e.setup.stage import Shell, Stage

UV_VERSION = "0.13.9"
_BOOTSTRAP = CACHE / f"uv-{UV_VERSION}-py{sys.version_info.major}.{sys.version_info.minor}"
_RETRY = "check the connection to your package index and run the same command again"


def uv_stage() -> Stage:
    """Installs uv, which fills environments from a cache in seconds."""
    binary = _BOOTSTRAP / "bin" / "uv"

    def run(shell: Shell) -> None:
        shell.run([sys.executable, "-m", "venv", _BOOTSTRAP], remedy="install python3-venv")
        shell.run(
            [_BOOTSTRAP / "bin" / "python", "-m", "pip", "install", "-q", f"uv=={UV_VERSION}"],
            remedy=_RETRY,
        )

    return Stage("uv", run, is_done=binary.exists)


def environment_stage(member: str) -> Stage:
    """Creates `.venv-<member>` with pinned versions and the member itself, editable."""
    venv, stamp = ROOT / f".venv-{member}", ROOT / f".venv-{member}" / "complete"
    key = _key(member)

    def run(shell: Shell) -> None:
        uv = _BOOTSTRAP / "bin" / "uv"
        env = _uv_environment()
        shell.run(
            [uv, "venv", "--clear", "--python", sys.executable, venv],
            remedy="remove the folder and run again",
            env=env,
        )
        shell.run(
            [uv, "pip", "install", "--python", venv, *_requirements(ROOT / member)],
            remedy=_RETRY,
            env=env,
        )
        stamp.write_text(key)

    return Stage(
        f"{member}-env",
        run,
        needs=("uv",),
        is_done=lambda: stamp.exists() and stamp.read_text() == key,
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
    """A cache of uv's own and, where variables configure pip, the same index and roots."""
    env = {"UV_CACHE_DIR": str(CACHE / "uv"), "UV_LINK_MODE": _link_mode()}
    for pip, uv in (("PIP_INDEX_URL", "UV_DEFAULT_INDEX"), ("PIP_CERT", "SSL_CERT_FILE")):
        if pip in os.environ and uv not in os.environ:
            env[uv] = os.environ[pip]
    return env


def _link_mode() -> str:
    """Hard links need one file system for the cache and the checkout."""
    (CACHE / "uv").mkdir(parents=True, exist_ok=True)
    same = _device(CACHE / "uv") == _device(ROOT)
    return "hardlink" if same else "copy"


def _device(path: Path) -> int:
    return path.stat().st_dev
