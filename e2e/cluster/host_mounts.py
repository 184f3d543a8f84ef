"""Host directories that carry this checkout's environments into pods, read-only.

Console scripts and editable installs hold absolute paths, so each directory appears in the
container under the path it has on the machine.
"""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.cluster.images import SEARCH_PATH, host_links
from e2e.setup.place import ENGINE_VENV, OPERATOR_VENV, ROOT

MEMBERS: Mapping[str, Path] = {"engine": ENGINE_VENV, "operator": OPERATOR_VENV}
"""Virtual environment of each member."""

SCRATCH = "/tmp"  # noqa: S108 - an emptyDir of the pod, the only place it may write to


@dataclass(frozen=True, slots=True)
class HostDirectory:
    """One directory of the machine.

    Attributes:
        name: Name of the volume.
        path: Where it lies, on the machine and in the container.
    """

    name: str
    path: Path

    @property
    def volume(self) -> dict[str, Any]:
        """The pod's volume; the directory must exist."""
        return {"name": self.name, "hostPath": {"path": str(self.path), "type": "Directory"}}

    @property
    def mount(self) -> dict[str, Any]:
        """The container's mount."""
        return {"name": self.name, "mountPath": str(self.path), "readOnly": True}


@dataclass(frozen=True, slots=True)
class HostEnvironment:
    """What a container of the host image needs to run a member's programs.

    Attributes:
        directories: Directories to mount, none of them inside another.
        variables: Environment variables.
    """

    directories: Sequence[HostDirectory]
    variables: Mapping[str, str]

    @property
    def volumes(self) -> list[dict[str, Any]]:
        """Volumes of the pod."""
        return [directory.volume for directory in self.directories]

    @property
    def mounts(self) -> list[dict[str, Any]]:
        """Volume mounts of the container."""
        return [directory.mount for directory in self.directories]

    @property
    def env(self) -> list[dict[str, str]]:
        """Environment of the container."""
        return [{"name": name, "value": value} for name, value in self.variables.items()]


def environment(member: str, cache: Path, extra: Iterable[Path] = ()) -> HostEnvironment:
    """The environment of a member of this checkout.

    Args:
        member: `engine` or `operator`.
        cache: Cache directory; the engine's compiled kernels lie in it.
        extra: Further directories, such as `e2e/` for a load generator.
    """
    venv = MEMBERS[member]
    wanted = {
        **system_directories(),
        "host-python": python_prefix(venv),
        "host-venv": venv,
        "host-source": ROOT / member / "src",
        **{f"host-extra-{number}": path for number, path in enumerate(extra)},
    }
    variables = {
        "PATH": f"{venv / 'bin'}:{SEARCH_PATH}",
        "HOME": SCRATCH,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
    }
    if member == "engine":
        wanted["host-kernels"] = cache / "kernels"
        variables["PACELINE_CACHE"] = str(cache)
    if extra:
        variables["PYTHONPATH"] = str(ROOT)
    return HostEnvironment(outermost(wanted), variables)


def system_environment() -> HostEnvironment:
    """The machine's own programs, as for the proxy."""
    return HostEnvironment(outermost(system_directories()), {})


def system_directories(links: Mapping[str, str] | None = None) -> dict[str, Path]:
    """/usr and, where they are no links into it, the directories beside it."""
    linked = host_links() if links is None else links
    beside = [name for name in ("bin", "sbin", "lib", "lib64") if name not in linked]
    found = {f"host-{name}": Path("/") / name for name in ("usr", *beside)}
    return {name: path for name, path in found.items() if path.is_dir()}


def python_prefix(venv: Path) -> Path:
    """Installation that a virtual environment's interpreter belongs to, links resolved."""
    interpreter = venv / "bin" / "python"
    real = interpreter.resolve() if interpreter.exists() else Path(sys.executable).resolve()
    return real.parent.parent


def outermost(directories: Mapping[str, Path]) -> list[HostDirectory]:
    """The directories that lie in no other one; of two equal ones the first."""
    kept: list[HostDirectory] = []
    for name, path in directories.items():
        others = [other for key, other in directories.items() if key != name]
        inside = any(path != other and path.is_relative_to(other) for other in others)
        if not inside and path not in [directory.path for directory in kept]:
            kept.append(HostDirectory(name, path))
    return kept


def unreadable(directories: Iterable[HostDirectory]) -> list[Path]:
    """Directories that an account other than their owner may not enter or list."""
    needed = 0o005
    return [d.path for d in directories if os.stat(d.path).st_mode & needed != needed]
