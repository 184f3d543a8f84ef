"""Header of a GGUF file: metadata and where each tensor lies.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Written here because the
reader of the `gguf` package builds an array object for every token (seconds and a hundred
megabytes), which the server process should not pay to learn a model's shape.
"""

from __future__ import annotations

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from paceline_engine.weights.errors import CorruptCheckpointError, UnsupportedModelError

MAGIC: Final = b"GGUF"
VERSIONS: Final = (2, 3)
DEFAULT_ALIGNMENT: Final = 32

_STRING: Final = 8
_ARRAY: Final = 9
_SCALARS: Final = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f",
    7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip

MetadataValue: TypeAlias = "bool | int | float | str | list[MetadataValue]"


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
        metadata: Key-value section.
        tensors: Tensor directory by name.
        data_offset: First byte of the data section.
    """

    metadata: dict[str, MetadataValue]
    tensors: dict[str, TensorEntry]
    data_offset: int


def read_header(path: Path, data: mmap.mmap) -> GgufHeader:
    """Parses the header of a mapped GGUF file.

    Raises:
        CorruptCheckpointError: Not GGUF, or cut short inside the header.
        UnsupportedModelError: A version this reader does not know.
    """
    if data[:4] != MAGIC:
        raise CorruptCheckpointError(path, "is not a GGUF file (wrong magic); download it again")
    cursor = _Cursor(data, 4)
    try:
        version = cursor.scalar("<I")
        if version not in VERSIONS:
            raise UnsupportedModelError(path, f"has GGUF version {version}, known are 2 and 3")
        return _read_sections(cursor)
    except (
        struct.error,
        UnicodeDecodeError,
        KeyError,
        OverflowError,
        MemoryError,
        RecursionError,  # arrays of arrays of arrays ...
    ) as error:
        raise CorruptCheckpointError(
            path, "has a damaged or truncated header; download the file again"
        ) from error


class _Cursor:
    """Reads values one after the other."""

    def __init__(self, data: mmap.mmap, position: int) -> None:
        self._data = data
        self.position = position

    def scalar(self, layout: str) -> int:
        (value,) = struct.unpack_from(layout, self._data, self.position)
        self.position += struct.calcsize(layout)
        return value  # type: ignore[no-any-return]  # struct returns Any; callers know the layout

    def text(self) -> str:
        length = self.scalar("<Q")
        end = self.position + length
        if end > len(self._data):
            raise struct.error("string beyond the end of the file")
        raw = self._data[self.position : end]
        self.position = end
        return raw.decode("utf-8")

    def value(self, kind: int) -> MetadataValue:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            return self._array()
        return self.scalar(_SCALARS[kind])

    def _array(self) -> list[MetadataValue]:
        kind, length = self.scalar("<I"), self.scalar("<Q")
        if kind in (_STRING, _ARRAY):
            return [self.value(kind) for _ in range(length)]
        layout = f"<{length}{_SCALARS[kind][1]}"
        values = struct.unpack_from(layout, self._data, self.position)
        self.position += struct.calcsize(layout)
        return list(values)


def _read_sections(cursor: _Cursor) -> GgufHeader:
    num_tensors, num_keys = cursor.scalar("<Q"), cursor.scalar("<Q")
    metadata: dict[str, MetadataValue] = {}
    for _ in range(num_keys):
        key = cursor.text()
        metadata[key] = cursor.value(cursor.scalar("<I"))
    tensors = dict(_read_tensor(cursor) for _ in range(num_tensors))
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1:
        raise struct.error("alignment is not a positive number")
    data_offset = -(-cursor.position // alignment) * alignment
    return GgufHeader(metadata, tensors, data_offset)


def _read_tensor(cursor: _Cursor) -> tuple[str, TensorEntry]:
    name = cursor.text()
    dimensions = [cursor.scalar("<Q") for _ in range(cursor.scalar("<I"))]
    ggml_type, offset = cursor.scalar("<I"), cursor.scalar("<Q")
    return name, TensorEntry(tuple(reversed(dimensions)), ggml_type, offset)
