"""Files that programs write at fixed places outside the state directory.

Only what bears the cluster's name, names its state, or is the kubelet's in a directory that
was not there before is deleted; a directory that was not there before goes once it is empty.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from e2e.cluster import procfs
from e2e.cluster.settings import NAME

DIRECTORIES: Sequence[Path] = (
    Path("/var/lib/cni"),
    Path("/var/lib/kubelet"),
    Path("/var/log/containers"),
)
"""libcni's results, the kubelet's device plug-in socket, and its links to logs."""

_KUBELET_FILES = ("kubelet.sock", "kubelet_internal_checkpoint", "DEPRECATION")
_LONGEST_RESULT = 1 << 16


def present(directories: Iterable[Path] = DIRECTORIES) -> list[str]:
    """Those of the directories that are there."""
    return [str(path) for path in directories if path.exists()]


def remove(state: Path, before: Iterable[str], directories: Iterable[Path] = DIRECTORIES) -> None:
    """Deletes what the cluster wrote.

    Args:
        state: State directory of the cluster, which links and results name.
        before: Directories that were there before it.
        directories: Where to look.
    """
    kept = set(before)
    for directory in directories:
        if not directory.is_dir() or procfs.mount_points(directory):
            continue
        new = str(directory) not in kept
        for path in list(directory.rglob("*")):
            if _is_own(path, state) or (new and path.name in _KUBELET_FILES):
                path.unlink(missing_ok=True)
        if new:
            _prune(directory)


def _is_own(path: Path, state: Path) -> bool:
    if path.is_symlink():
        return path.readlink().is_relative_to(state)
    if not path.is_file():
        return False
    return path.name.startswith(f"{NAME}-") or _names(path, state)


def _names(path: Path, state: Path) -> bool:
    """A result of libcni tells the network namespace, which lies in the state directory."""
    with suppress(OSError):
        small = path.stat().st_size <= _LONGEST_RESULT
        return small and f'"{state}/'.encode() in path.read_bytes()
    return False


def _prune(directory: Path) -> None:
    """Removes directories in which nothing is left, the deepest first."""
    below = sorted((path for path in directory.rglob("*") if path.is_dir()), reverse=True)
    for path in (*below, directory):
        with suppress(OSError):
            path.rmdir()
