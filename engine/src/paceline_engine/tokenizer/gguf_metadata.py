"""Key-value metadata of a GGUF file, without touching its tensors.

The `gguf` package builds a numpy view per array element, which takes seconds and some
200 MB for a vocabulary; a server process needs the same lists in a tenth of a second.
Format: the GGUF specification, versions 2 and 3 (little endian).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

from paceline_engine.tokenizer.errors import TokenizerLoadError

GgufScalar = str | int | float | bool
GgufValue = GgufScalar | list[str] | list[int] | list[float] | list[bool]

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_STRING: Final = 8
_ARRAY: Final = 9
_MAX_KEYS: Final = 65_536
# GGUF value type -> struct code of one element.
_SCALARS: Final = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip


class _Cursor:
    """Reads values one after the other from a buffer; every read is bounds-checked."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._offset = 4

    def scalar(self, code: str) -> int | float | bool:
        value: int | float | bool = struct.unpack_from(f"<{code}", self._data, self._offset)[0]
        self._offset += struct.calcsize(code)
        return value

    def count(self) -> int:
        return int(self.scalar("Q"))

    def string(self) -> str:
        (length,) = struct.unpack_from("<Q", self._data, self._offset)
        start = self._offset + 8
        end = start + length
        if end > len(self._data):
            raise struct.error("string runs past the end of the file")
        self._offset = end
        return self._data[start:end].decode("utf-8")

    def strings(self, count: int) -> list[str]:
        return [self.string() for _ in range(count)]

    def scalars(self, code: str, count: int) -> list[int] | list[float] | list[bool]:
        size = struct.calcsize(code) * count
        if self._offset + size > len(self._data):
            raise struct.error("array runs past the end of the file")
        values = list(struct.unpack_from(f"<{count}{code}", self._data, self._offset))
        self._offset += size
        return values

    def value(self, kind: int) -> GgufValue:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            return self._array()
        return self.scalar(_scalar_code(kind))

    def _array(self) -> GgufValue:
        kind = int(self.scalar("I"))
        count = self.count()
        if kind == _STRING:
            return self.strings(count)
        return self.scalars(_scalar_code(kind), count)


def _scalar_code(kind: int) -> str:
    try:
        return _SCALARS[kind]
    except KeyError:
        raise struct.error(f"unknown value type {kind}") from None


def read_gguf_metadata(
    path: Path, wanted: Callable[[str], bool] = lambda _key: True
) -> dict[str, GgufValue]:
    """Reads the metadata of a GGUF file.

    Args:
        path: The file.
        wanted: Tells by its name whether a key is kept; others are parsed and dropped.

    Returns:
        Key to value; arrays are lists.

    Raises:
        TokenizerLoadError: The file is missing, is not GGUF, or is cut short.
    """
    try:
        with (
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            return _parse(path, data, wanted)
    except OSError as error:
        raise TokenizerLoadError(f"cannot read {path}: {error.strerror or error}") from error
    except (struct.error, ValueError, OverflowError, MemoryError) as error:
        raise TokenizerLoadError(f"{path} is broken: {error}; fetch the file again") from error


def _parse(path: Path, data: mmap.mmap, wanted: Callable[[str], bool]) -> dict[str, GgufValue]:
    if data[:4] != _MAGIC:
        raise TokenizerLoadError(f"{path} is not a GGUF file")
    cursor = _Cursor(data)
    version = int(cursor.scalar("I"))
    if version not in _VERSIONS:
        raise TokenizerLoadError(f"{path} is GGUF version {version}; versions 2 and 3 are read")
    cursor.count()  # tensors
    keys = cursor.count()
    if keys > _MAX_KEYS:
        raise struct.error(f"{keys} metadata keys")
    found: dict[str, GgufValue] = {}
    for _ in range(keys):
        key = cursor.string()
        value = cursor.value(int(cursor.scalar("I")))
        if wanted(key):
            found[key] = value
    return found
