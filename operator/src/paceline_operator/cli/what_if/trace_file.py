"""Trace files: opened here, understood in `simulator.loads.trace`."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from functools import partial
from io import BufferedIOBase
from pathlib import Path

from paceline_operator.simulator.loads.superpose import Tape, record
from paceline_operator.simulator.loads.trace import TraceError, complaint, parse_trace
from paceline_operator.simulator.request import Request

ENDINGS = (".csv", ".csv.gz")
MOST_LINE_BYTES = 1 << 20
_GZIP = b"\x1f\x8b"
_BOMS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def trace_paths(folder: Path) -> list[Path]:
    """The trace files of a folder, by name.

    Raises:
        TraceError: It is no folder that can be read, or holds none.
    """
    try:
        found = sorted(path for path in folder.iterdir() if path.name.endswith(ENDINGS))
    except OSError as error:
        raise TraceError(f"{folder}: {error.strerror}; name a folder of traces") from error
    if not found:
        raise TraceError(f"{folder}: no file ends in {' or '.join(ENDINGS)}; put a trace there")
    return found


def read_trace(path: Path) -> Iterator[Request]:
    """Requests of a file, read as they are asked for.

    Raises:
        TraceError: The file cannot be read, or is no trace; raised on the way.
    """
    return parse_trace(_lines(path), str(path))


def trace_tape(path: Path) -> Tape:
    """A file as a tape; reads it once, so that whatever is wrong with it is said now.

    Raises:
        TraceError: See `read_trace`; or it has no length.
    """
    try:
        return record(partial(read_trace, path))
    except TraceError:
        raise
    except ValueError as error:
        raise TraceError(f"{path}: all requests arrive at once; give it a length") from error


def _lines(path: Path) -> Iterator[str]:
    """Its lines; bytes that are no text show as escapes, and fit no form."""
    read = 0
    try:
        with _opened(path) as file:
            while line := file.readline(MOST_LINE_BYTES):
                if not read:
                    _check_beginning(path, line)
                read += 1
                yield line.rstrip(b"\r\n").decode("ascii", "backslashreplace")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        what = f"the compressed data cannot be read ({error})"
        raise complaint(str(path), read + 1, what, "fetch the file again") from error
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}; name a file to read") from error


def _check_beginning(path: Path, line: bytes) -> None:
    """Names what would show as escapes that nobody recognises."""
    if line.startswith(_GZIP):
        raise complaint(str(path), 1, "it is compressed by gzip", "name it .csv.gz")
    if line.startswith(_BOMS):
        what = "it begins with a byte order mark"
        raise complaint(str(path), 1, what, "save it as UTF-8 without one")


def _opened(path: Path) -> BufferedIOBase:
    if path.suffix == ".gz":
        return gzip.open(path)
    return path.open("rb")
