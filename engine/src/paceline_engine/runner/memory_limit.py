"""How much memory this process may still take: control group limits and the machine.

Formats: Linux `Documentation/admin-guide/cgroup-v2.rst`, `cgroup-v1/memory.rst`, proc(5).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from paceline_engine.memory import LimitSource, MemoryLimit

_ROOT = Path("/")


class _Group(NamedTuple):
    """Where a version of control groups keeps its numbers."""

    source: LimitSource
    mount: str
    limit: str
    usage: str
    cache: str


_V2 = _Group(
    LimitSource.CGROUP_V2, "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"
)
_V1 = _Group(
    LimitSource.CGROUP_V1,
    "sys/fs/cgroup/memory",
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    "total_inactive_file",
)


def available_memory_bytes(root: Path = _ROOT) -> int:
    """Bytes to the nearest limit; see `nearest_limit`."""
    return nearest_limit(root).available_bytes


def nearest_limit(root: Path = _ROOT) -> MemoryLimit:
    """The limit with the least left: MemAvailable, or limit minus use of a control group.

    File cache that the kernel can drop counts as free. Every group from the process's own
    up to the root counts, as each may be the one that limits.

    Args:
        root: File system root; tests give one of their own.
    """
    limits = [_machine(root), *_groups(root)]
    return min(limits, key=lambda limit: limit.available_bytes)


def _machine(root: Path) -> MemoryLimit:
    lines = (root / "proc/meminfo").read_text(encoding="ascii").splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    total, available = (
        int(fields[name].split()[0]) * 1024 if name in fields else 0
        for name in ("MemTotal", "MemAvailable")
    )
    return MemoryLimit(
        source=LimitSource.MACHINE, total_bytes=max(total, available), available_bytes=available
    )


def _groups(root: Path) -> Iterator[MemoryLimit]:
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            group = _V2
        elif "memory" in controllers.split(","):
            group = _V1
        else:
            continue
        mount = root / group.mount
        for directory in _up_to(mount, mount / path.lstrip("/")):
            yield from _limit_of(directory, group)


def _up_to(mount: Path, directory: Path) -> Iterator[Path]:
    """The group's directory and its parents; only the mount itself inside a container."""
    while directory != mount and directory.is_relative_to(mount):
        yield directory
        directory = directory.parent
    yield mount


def _limit_of(directory: Path, group: _Group) -> Iterator[MemoryLimit]:
    ceiling = _read(directory / group.limit).strip()
    used = _read(directory / group.usage).strip()
    if ceiling.isdigit() and used.isdigit():
        stat = dict(
            line.split(" ", 1) for line in _read(directory / "memory.stat").splitlines() if line
        )
        left = int(ceiling) - int(used) + int(stat.get(group.cache, 0))
        yield MemoryLimit(
            source=group.source, total_bytes=int(ceiling), available_bytes=max(0, left)
        )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""
