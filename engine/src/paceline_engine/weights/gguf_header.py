"""Header of a GGUF file: metadata and where each tensor lies.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3, little
endian. Written here because the reader of the `gguf` package builds an array object for
every token (seconds and 200 MB), which a server process should not pay to learn a model's
shape and vocabulary. Neither numpy nor torch is needed.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, Final

from paceline_engine.weights.errors import CorruptCheckpointError, UnsupportedModelError
from paceline_engine.weights.file import ModelFile

GgufScalar = str | int | float | bool
GgufValue = GgufScalar | list[str] | list[int] | list[float] | list[bool]

MAGIC: Final = b"GGUF"
VERSIONS: Final = (2, 3)
DEFAULT_ALIGNMENT: Final = 32

_STRING: Final = 8
_ARRAY: Final = 9
# GGUF value type -> struct code of one element.
_SCALARS: Final = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
# Far above what any file holds; a damaged count must not become an allocation.
_MOST_KEYS: Final = 65_536
_MOST_TENSORS: Final = 1 << 20
_MOST_ELEMENTS: Final = 1 << 24
_MOST_DIMENSIONS: Final = 4
_LONGEST_TEXT: Final = 1 << 26
_LONGEST_NAME: Final = 65_535


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """Where a tensor lies.

    Attributes:
        shape: Row-major shape, the innermost dimension last.
        ggml_type: Number of its storage type.
        offset: Byte offset from the start of the data section.
    """

    shape: tuple[int, ...]
    ggml_type: int
    offset: int

    @property
    def num_elements(self) -> int:
        """Elements in the tensor."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """Parsed header.

    Attributes:
        metadata: Key-value section, as far as it was wanted.
        tensors: Tensor directory by name.
        data_offset: First byte of the data section.
    """

    metadata: dict[str, GgufValue]
    tensors: dict[str, TensorEntry]
    data_offset: int


def read_header(file: ModelFile, wanted: Callable[[str], bool] = lambda _key: True) -> GgufHeader:
    """Parses the header of a GGUF file.

    Args:
        file: The file.
        wanted: Tells by its name whether a key is kept; others are parsed and dropped.

    Raises:
        CorruptCheckpointError: Not GGUF, damaged, or cut short inside the header.
        UnsupportedModelError: A version this reader does not know, or one part of several.
    """
    cursor = _Cursor(file)
    if cursor.raw(min(file.size, len(MAGIC))) != MAGIC:
        raise CorruptCheckpointError(
            file.path, "is not a GGUF file (wrong magic); download it again"
        )
    try:
        _check_version(file, int(cursor.scalar("I")))
        return _read_sections(file, cursor, wanted)
    except (struct.error, ValueError, OverflowError, MemoryError) as error:
        raise CorruptCheckpointError(
            file.path, f"has a damaged or truncated header ({error}); download the file again"
        ) from error


def _check_version(file: ModelFile, version: int) -> None:
    if version in VERSIONS:
        return
    if version and version & 0xFFFF == 0:
        raise UnsupportedModelError(file.path, "is big endian, which is not supported")
    raise UnsupportedModelError(
        file.path, f"is GGUF version {version}; versions 2 and 3 are read; convert it anew"
    )


class _Cursor:
    """Reads values one after the other; nothing is asked for that the file cannot hold."""

    def __init__(self, file: ModelFile) -> None:
        self._stream: BinaryIO = file.from_start()
        self._left = file.size
        self.position = 0

    def raw(self, size: int) -> bytes:
        content = self._stream.read(size) if size <= self._left else b""
        if len(content) != size:
            raise struct.error("it ends too early")
        self._left -= size
        self.position += size
        return content

    def scalar(self, code: str) -> int | float | bool:
        value: int | float | bool = struct.unpack(f"<{code}", self.raw(struct.calcsize(code)))[0]
        return value

    def count(self, most: int, what: str) -> int:
        (count,) = struct.unpack("<Q", self.raw(8))
        if count > most:
            raise struct.error(f"{count} {what}")
        return int(count)

    def text(self, longest: int = _LONGEST_TEXT) -> str:
        return self.raw(self.count(longest, "bytes of text")).decode("utf-8")

    def value(self) -> GgufValue:
        kind = int(self.scalar("I"))
        if kind == _STRING:
            return self.text()
        return self._array() if kind == _ARRAY else self.scalar(_scalar_code(kind))

    def _array(self) -> GgufValue:
        kind = int(self.scalar("I"))
        count = self.count(_MOST_ELEMENTS, "elements in one list")
        if kind == _STRING:
            return [self.text() for _ in range(count)]
        code = _scalar_code(kind)
        return list(struct.unpack(f"<{count}{code}", self.raw(count * struct.calcsize(code))))


def _scalar_code(kind: int) -> str:
    if kind not in _SCALARS:
        raise struct.error(f"unknown value type {kind}")
    return _SCALARS[kind]


def _read_sections(file: ModelFile, cursor: _Cursor, wanted: Callable[[str], bool]) -> GgufHeader:
    num_tensors = cursor.count(_MOST_TENSORS, "tensors")
    num_keys = cursor.count(_MOST_KEYS, "metadata keys")
    metadata: dict[str, GgufValue] = {}
    alignment: GgufValue = DEFAULT_ALIGNMENT
    for _ in range(num_keys):
        key = cursor.text(_LONGEST_NAME)
        value = cursor.value()
        if key in metadata:
            raise struct.error(f"key {key} stands there twice")
        if key == "general.alignment":
            alignment = value
        if key == "split.count" and value not in (0, 1):
            raise UnsupportedModelError(
                file.path, f"is one of {value} parts; merge them with `llama-gguf-split --merge`"
            )
        if wanted(key):
            metadata[key] = value
    tensors = _read_tensors(cursor, num_tensors)
    return GgufHeader(metadata, tensors, _aligned(cursor.position, alignment))


def _aligned(position: int, alignment: GgufValue) -> int:
    if isinstance(alignment, bool) or not isinstance(alignment, int) or alignment < 1:
        raise struct.error("the alignment is no positive number")
    return -(-position // alignment) * alignment


def _read_tensors(cursor: _Cursor, count: int) -> dict[str, TensorEntry]:
    tensors: dict[str, TensorEntry] = {}
    for _ in range(count):
        name = cursor.text(_LONGEST_NAME)
        if name in tensors:
            raise struct.error(f"tensor {name} stands there twice")
        tensors[name] = _read_tensor(cursor)
    return tensors


def _read_tensor(cursor: _Cursor) -> TensorEntry:
    num_dimensions = int(cursor.scalar("I"))
    if num_dimensions > _MOST_DIMENSIONS:
        raise struct.error(f"a tensor of {num_dimensions} dimensions")
    dimensions = [int(cursor.scalar("Q")) for _ in range(num_dimensions)]
    ggml_type, offset = int(cursor.scalar("I")), int(cursor.scalar("Q"))
    return TensorEntry(tuple(reversed(dimensions)), ggml_type, offset)
