"""How much memory this process may still take: control group limits and the machine.

Formats: Linux `Documentation/admin-guide/cgroup-v2.rst`, `cgroup-v1/memory.rst`, proc(5).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")


def available_memory_bytes(root: Path = _ROOT) -> int:
    """Bytes to the nearest limit: MemAvailable, or limit minus use of a control group.

    File cache that the kernel can drop counts as free. Every group from the process's own
    up to the root counts, as each may be the one that limits.

    Args:
        root: File system root; tests give one of their own.
    """
    return max(0, min([_machine_available(root), *_groups_available(root)]))


def _machine_available(root: Path) -> int:
    lines = (root / "proc/meminfo").read_text(encoding="ascii").splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(fields["MemAvailable"].split()[0]) * 1024


def _groups_available(root: Path) -> Iterator[int]:
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            mount, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            mount = root / "sys/fs/cgroup/memory"
            names = (
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_inactive_file",
            )
        else:
            continue
        for directory in _up_to(mount, mount / path.lstrip("/")):
            yield from _group_available(directory, *names)


def _up_to(mount: Path, directory: Path) -> Iterator[Path]:
    """The group's directory and its parents; only the mount itself inside a container."""
    while directory != mount and directory.is_relative_to(mount):
        yield directory
        directory = directory.parent
    yield mount


def _group_available(directory: Path, limit: str, usage: str, cache: str) -> Iterator[int]:
    ceiling, used = _read(directory / limit).strip(), _read(directory / usage).strip()
    if ceiling.isdigit() and used.isdigit():
        stat = dict(
            line.split(" ", 1) for line in _read(directory / "memory.stat").splitlines() if line
        )
        yield int(ceiling) - int(used) + int(stat.get(cache, 0))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""
