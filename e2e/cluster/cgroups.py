"""The cluster's own cgroup: every container lives below it, on version 1 and version 2.

The kubelet wants it to exist; when the cluster goes, it also tells which processes are left.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from e2e.cluster.settings import NAME

ROOT = NAME
"""Name of the cgroup, right below the hierarchy's root."""

MOUNT = Path("/sys/fs/cgroup")


def hierarchies(mount: Path = MOUNT) -> list[Path]:
    """Directories of this machine's hierarchies: one on version 2, one per controller on 1."""
    if (mount / "cgroup.controllers").exists():
        return [mount]
    return sorted(path for path in mount.iterdir() if path.is_dir() and not path.is_symlink())


def create(mount: Path = MOUNT) -> None:
    """Makes the cgroup in every hierarchy and hands it the controllers there are."""
    for hierarchy in hierarchies(mount):
        _enable(hierarchy)
        if hierarchy.name == "cpuset":
            _make_cpuset(hierarchy)
        else:
            (hierarchy / ROOT).mkdir(exist_ok=True)


def processes(mount: Path = MOUNT) -> set[int]:
    """Ids of all processes in the cgroup or below."""
    found: set[int] = set()
    for group in _groups(mount):
        with suppress(OSError):
            found.update(int(line) for line in (group / "cgroup.procs").read_text().split())
    return found


def end(mount: Path = MOUNT, patience_s: float = 10.0) -> None:
    """Kills what still runs in the cgroup, then removes it."""
    limit = time.monotonic() + patience_s
    while (left := processes(mount)) and time.monotonic() < limit:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    while not _remove(mount) and time.monotonic() < limit:
        time.sleep(0.05)


def exists(mount: Path = MOUNT) -> bool:
    """Whether any part of the cgroup is there."""
    return any((hierarchy / ROOT).exists() for hierarchy in hierarchies(mount))


def _remove(mount: Path) -> bool:
    for group in _groups(mount):
        # A group with a process that is just dying is busy for a moment.
        with suppress(OSError):
            group.rmdir()
    return not exists(mount)


def _groups(mount: Path) -> Iterator[Path]:
    """Yields the cgroup's directories, the deepest first."""
    for hierarchy in hierarchies(mount):
        for place, _, _ in os.walk(hierarchy / ROOT, topdown=False):
            yield Path(place)


def _enable(hierarchy: Path) -> None:
    available = hierarchy / "cgroup.controllers"
    if hierarchy != hierarchy.parent / "unified" and available.exists():
        for controller in available.read_text().split():
            # A controller that cannot be delegated is one the kubelet does not ask for.
            with suppress(OSError):
                (hierarchy / "cgroup.subtree_control").write_text(f"+{controller}")


def _make_cpuset(hierarchy: Path) -> None:
    """A new cpuset is empty and takes no process until it is told what it may use."""
    group = hierarchy / ROOT
    group.mkdir(exist_ok=True)
    for name in ("cpuset.cpus", "cpuset.mems"):
        if (group / name).exists() and not (group / name).read_text().strip():
            (group / name).write_text((hierarchy / name).read_text())
