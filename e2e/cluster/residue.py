"""Files that programs write at fixed places outside the state directory.

A directory that was not there before the cluster goes with it; in one that was there only what
bears the cluster's name or points into its state is deleted.
"""

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from e2e.cluster import procfs
from e2e.cluster.settings import NAME

DIRECTORIES: Sequence[Path] = (
    Path("/var/lib/cni"),
    Path("/var/lib/kubelet"),
    Path("/var/log/containers"),
)
"""libcni's results, the kubelet's device plug-in socket, and its links to logs."""


def present(directories: Iterable[Path] = DIRECTORIES) -> list[str]:
    """Those of the directories that are there."""
    return [str(path) for path in directories if path.exists()]


def remove(state: Path, before: Iterable[str], directories: Iterable[Path] = DIRECTORIES) -> None:
    """Deletes what the cluster wrote.

    Args:
        state: State directory of the cluster, at which links point.
        before: Directories that were there before it.
        directories: Where to look.
    """
    kept = set(before)
    for directory in directories:
        if str(directory) in kept:
            _delete_own(directory, state)
        elif directory.exists() and not procfs.mount_points(directory):
            shutil.rmtree(directory)


def _delete_own(directory: Path, state: Path) -> None:
    for path in directory.rglob("*"):
        named = path.is_file() and path.name.startswith(f"{NAME}-")
        linked = path.is_symlink() and path.readlink().is_relative_to(state)
        if named or linked:
            path.unlink()
