"""Why a checkpoint cannot be used: every error is one line that names the path and a remedy."""

from __future__ import annotations

from pathlib import Path

from paceline_engine.one_line import one_line


class CheckpointError(Exception):
    """Base of all checkpoint errors.

    Args:
        path: File or directory that was given.
        reason: What is wrong and what to do; line breaks and control characters, which a
            damaged file may bring in, are taken out.
    """

    def __init__(self, path: str | Path, reason: str) -> None:
        super().__init__(f"model {one_line(str(path))}: {one_line(reason)}")
        self.path = Path(path)
        self.reason = reason


class CheckpointNotFoundError(CheckpointError):
    """The path, or a file that must be beside it, does not exist."""


class CorruptCheckpointError(CheckpointError):
    """The file is truncated, damaged or of another format."""


class UnsupportedModelError(CheckpointError):
    """A well-formed checkpoint of a model this engine cannot run."""
