"""Whose a state directory is: `up` marks the one it makes, and nothing else is ever deleted."""

from pathlib import Path

from e2e.cluster import procfs
from e2e.cluster.errors import ClusterError
from e2e.cluster.settings import NAME, Settings

_MARKER = f".{NAME}"
_TEXT = "State of Paceline's test cluster: `python -m e2e.cluster down` deletes this directory.\n"
_OWN_MOUNTS = ("containerd", "kubelet", "run")
"""Directories of the state in which the cluster's programs mount."""


def claim(settings: Settings) -> None:
    """Makes the directory, and marks it before anything else is written into it.

    Raises:
        ClusterError: It is there and is somebody else's, or cannot be made.
    """
    require(settings)
    try:
        settings.state.mkdir(parents=True, exist_ok=True)
        marker(settings).write_text(_TEXT)
    except OSError as error:
        raise ClusterError(
            f"PACELINE_STATE={settings.state} cannot be made: {error.strerror}",
            "name a directory that may be written",
        ) from error


def require(settings: Settings) -> None:
    """Checks that the directory is absent, empty, or one that `up` made, without foreign mounts.

    Raises:
        ClusterError: It is not; neither `up` nor `down` may touch it.
    """
    state = settings.state
    if not state.exists() and not state.is_symlink():
        return
    if not state.is_dir() or state.is_symlink():
        raise _refusal(settings, "is not a directory")
    if foreign := foreign_mounts(state, procfs.mount_points(state)):
        raise _refusal(settings, f"has something else mounted at {foreign[0]}")
    if not is_marked(settings) and any(state.iterdir()):
        raise _refusal(settings, f"holds files, and no `up` made it (there is no {_MARKER})")


def is_marked(settings: Settings) -> bool:
    """Whether an `up` made the directory."""
    found = marker(settings)
    return found.is_file() and not found.is_symlink()


def marker(settings: Settings) -> Path:
    """File that says whose the directory is."""
    return settings.state / _MARKER


def foreign_mounts(state: Path, points: list[Path]) -> list[Path]:
    """Those mount points, at or below the directory, that no program of the cluster makes."""
    own = [state / name for name in _OWN_MOUNTS]
    return [point for point in points if not any(point.is_relative_to(place) for place in own)]


def _refusal(settings: Settings, why: str) -> ClusterError:
    return ClusterError(
        f"PACELINE_STATE={settings.state} {why}",
        "nothing was touched; name a directory that does not exist yet",
    )
