"""A model's file, read piece by piece.

Nothing is mapped into memory: a mapped file that somebody cuts short while it is read kills
the process with a signal, where a read that comes up short is one line.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from paceline_engine.weights.errors import CheckpointNotFoundError, CorruptCheckpointError

_POINTER: Final = b"version https://git-lfs"


class ModelFile:
    """A regular file open for reading, which must not change meanwhile.

    Args:
        path: The file.

    Raises:
        CheckpointNotFoundError: There is none, or a link leads nowhere.
        CorruptCheckpointError: It may not be read, is no regular file, or holds a Git LFS
            pointer in the model's place.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        descriptor = _open(path)
        self._opened = os.fstat(descriptor)
        if not stat.S_ISREG(self._opened.st_mode):
            os.close(descriptor)
            raise CorruptCheckpointError(path, "is no regular file")
        self._file: BinaryIO = os.fdopen(descriptor, "rb", buffering=1 << 16)
        if self.size >= len(_POINTER) and self.read(0, len(_POINTER)) == _POINTER:
            self._file.close()
            raise CorruptCheckpointError(
                path, "is a Git LFS pointer in the file's place; run `git lfs pull`"
            )

    @property
    def size(self) -> int:
        """Bytes in the file when it was opened."""
        return self._opened.st_size

    def from_start(self) -> BinaryIO:
        """The file as a stream at its first byte; one at a time."""
        self._file.seek(0)
        return self._file

    def read(self, offset: int, size: int) -> bytearray:
        """Reads `size` bytes at `offset` into memory of their own.

        Raises:
            CorruptCheckpointError: The file ends before, or has changed since it was opened.
        """
        if not 0 <= offset <= offset + size <= self.size:
            raise CorruptCheckpointError(
                self.path,
                f"is truncated: bytes {offset} to {offset + size} are needed, it ends at "
                f"{self.size}; download it again",
            )
        content = bytearray(size)
        with memoryview(content) as view:
            self._fill(view, offset)
        self.check_unchanged()
        return content

    def check_unchanged(self) -> None:
        """Raises.

        Raises:
            CorruptCheckpointError: The file was written to since it was opened.
        """
        now = os.fstat(self._file.fileno())
        before = self._opened
        if (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            raise CorruptCheckpointError(
                self.path, "changed while it was read; start again when it is complete"
            )

    def close(self) -> None:
        """Closes it; safe to call twice."""
        self._file.close()

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes it."""
        self.close()

    def _fill(self, view: memoryview, offset: int) -> None:
        done = 0
        try:
            while done < len(view):
                got = os.preadv(self._file.fileno(), [view[done:]], offset + done)
                if not got:
                    self.check_unchanged()
                    raise CorruptCheckpointError(self.path, "is truncated; download it again")
                done += got
        except OSError as error:
            raise CorruptCheckpointError(
                self.path, f"cannot be read: {error.strerror or error}"
            ) from error


def _open(path: Path) -> int:
    try:
        # A pipe would hold the process up until somebody writes to it.
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise CheckpointNotFoundError(path, "does not exist; download the model again") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CorruptCheckpointError(path, f"cannot be read: {reason}") from error
