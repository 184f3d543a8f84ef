"""What is printed: that it cannot be written is an error, or an orderly end, like any other."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

from typing_extensions import override

from paceline_operator.cli.errors import CliError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

UNREAD = 141
"""What a shell shows of a program that SIGPIPE ended."""


class OutputError(CliError):
    """What is printed cannot be written."""


def prepare() -> None:
    """From here on a write that fails is an `OutputError`, a pipe that nobody reads an end.

    What standard error does not take is lost. Text that the encoding lacks is written as escapes.
    """
    sys.stdout = _text(sys.stdout, _Printed)
    sys.stderr = _text(sys.stderr, _Told)


class _Told(io.FileIO):
    """Standard error: when it fails, there is nowhere left to say so."""

    @override
    def write(self, given: ReadableBuffer, /) -> int:
        try:
            return super().write(given) or 0
        except OSError:
            return memoryview(given).nbytes


class _Printed(io.FileIO):
    """Standard output; it fails once, and is silent then, so that the program can end."""

    _is_lost = False

    @override
    def write(self, given: ReadableBuffer, /) -> int:
        if self._is_lost:
            return memoryview(given).nbytes
        try:
            return super().write(given) or 0
        except OSError as error:
            self._is_lost = True
            if isinstance(error, BrokenPipeError):
                # Neither rich nor typer may see it: both would end the program with 1.
                raise SystemExit(UNREAD) from None
            raise OutputError(
                f"standard output: {error.strerror or error}; write it to another place"
            ) from error


def _text(stream: TextIO | None, kind: type[io.FileIO]) -> TextIO:
    if stream is None:  # it was closed when the program began
        return open(os.devnull, "w", encoding="utf-8")
    return io.TextIOWrapper(
        io.BufferedWriter(kind(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=bool(stream.line_buffering),
        write_through=getattr(stream, "write_through", False),
    )
