"""Header of a safetensors file: where each tensor lies.

Format: https://github.com/huggingface/safetensors#format. Read here, and not with the
library, because that maps the file (see `file`) and needs torch to know bfloat16.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from paceline_engine.weights.errors import CorruptCheckpointError
from paceline_engine.weights.file import ModelFile
from paceline_engine.weights.json_object import parse_json_object

_LARGEST_HEADER: Final = 100_000_000
_PREFIX_BYTES: Final = 8
# Bytes of one element.
ELEMENT_BYTES: Final = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
    "U16": 2, "I16": 2, "F16": 2, "BF16": 2, "U32": 4, "I32": 4, "F32": 4,
    "U64": 8, "I64": 8, "F64": 8, "C64": 8,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Where a tensor lies.

    Attributes:
        dtype: Name of its type, a key of `ELEMENT_BYTES`.
        shape: Row-major shape.
        offset: First byte in the file.
        size: Bytes.
    """

    dtype: str
    shape: tuple[int, ...]
    offset: int
    size: int


def read_header(file: ModelFile) -> dict[str, StoredTensor]:
    """Reads where each tensor lies.

    Raises:
        CorruptCheckpointError: No safetensors file, cut short, or with tensors that overlap,
            leave gaps or do not fill their place.
    """
    length = int.from_bytes(file.read(0, min(_PREFIX_BYTES, file.size)), "little")
    if file.size < _PREFIX_BYTES or length > min(_LARGEST_HEADER, file.size - _PREFIX_BYTES):
        raise CorruptCheckpointError(
            file.path, "is truncated or no safetensors file; download it again"
        )
    header = parse_json_object(file.path, bytes(file.read(_PREFIX_BYTES, length)), distinct=True)
    header.pop("__metadata__", None)
    start = _PREFIX_BYTES + length
    tensors = {name: _tensor(file, start, name, entry) for name, entry in header.items()}
    _check_places(file, start, tensors)
    return tensors


def _tensor(file: ModelFile, start: int, name: str, entry: Any) -> StoredTensor:
    try:
        dtype, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        numbers = [begin, end, *shape]
        if not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError("a size is no whole number")
        is_whole = end - begin == math.prod(shape) * ELEMENT_BYTES[dtype]
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptCheckpointError(
            file.path, f"describes tensor {name} wrongly ({error}); download it again"
        ) from error
    if not is_whole:
        raise CorruptCheckpointError(
            file.path, f"has {end - begin} bytes for tensor {name} of shape {shape} in {dtype}"
        )
    return StoredTensor(dtype, tuple(shape), start + begin, end - begin)


def _check_places(file: ModelFile, start: int, tensors: dict[str, StoredTensor]) -> None:
    end = start
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].offset, item[1].size)):
        if tensor.offset != end:
            raise CorruptCheckpointError(
                file.path, f"has tensor {name} at byte {tensor.offset} where {end} belongs"
            )
        end += tensor.size
    if end != file.size:
        raise CorruptCheckpointError(
            file.path,
            f"is truncated or damaged: its tensors end at byte {end}, it at {file.size}; "
            "download it again",
        )
