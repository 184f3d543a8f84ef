"""GGUF checkpoints: quantised blocks to fp32."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize
from numpy.typing import NDArray

from paceline_engine.weights.consistency import check_finite, check_tensors
from paceline_engine.weights.errors import CorruptCheckpointError, UnsupportedModelError
from paceline_engine.weights.families import FAMILIES
from paceline_engine.weights.file import ModelFile
from paceline_engine.weights.gguf_config import read_config
from paceline_engine.weights.gguf_header import TensorEntry, read_header
from paceline_engine.weights.gguf_names import FREQUENCY_DIVISORS, gguf_name
from paceline_engine.weights.model_config import ModelConfig


def read_file_config(path: Path) -> ModelConfig:
    """Reads the model's shape from the header of the GGUF file at `path`."""
    with GgufCheckpoint(path) as checkpoint:
        return checkpoint.config


class GgufCheckpoint:
    """An open GGUF file.

    Raises:
        CheckpointError: When built: not GGUF, truncated, or not a Llama-like model.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = ModelFile(path)
        try:
            self._header = read_header(self._file, lambda key: not key.startswith("tokenizer."))
            self._check_places()
            self.config = read_config(
                path, self._header.metadata, self._header.tensors, self._frequency_divisors()
            )
            self._check_tensors()
        except Exception:
            self._file.close()
            raise

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Dequantises one tensor; see `Checkpoint.tensor`."""
        stored = gguf_name(name)
        entry = self._header.tensors.get(stored)
        if entry is None:
            raise CorruptCheckpointError(self._path, f"has no tensor {stored}")
        values = check_finite(self._path, stored, self._dequantised(stored, entry))
        if not FAMILIES[self.config.architecture].interleaved:
            return values
        if "self_attn.q_proj" in name:
            return _halves_rotated(values, self.config.num_heads)
        if "self_attn.k_proj" in name:
            return _halves_rotated(values, self.config.num_kv_heads)
        return values

    def close(self) -> None:
        """Closes the file; safe to call twice."""
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
        """Closes the file."""
        self.close()

    def _dequantised(self, stored: str, entry: TensorEntry) -> NDArray[np.float32]:
        kind = _quantisation(self._path, entry)
        size = _stored_bytes(self._path, stored, entry)
        raw = np.frombuffer(
            self._file.read(self._header.data_offset + entry.offset, size), dtype=np.uint8
        )
        try:
            with np.errstate(all="ignore"):  # a damaged scale; the result is checked
                values = dequantize(raw.reshape(*entry.shape[:-1], -1), kind)
        except NotImplementedError as error:
            raise UnsupportedModelError(
                self._path,
                f"tensor {stored} is stored as {kind.name}, which cannot be dequantised",
            ) from error
        return values.astype(np.float32, copy=False).reshape(entry.shape)

    def _frequency_divisors(self) -> list[float]:
        entry = self._header.tensors.get(FREQUENCY_DIVISORS)
        if entry is None:
            return []
        if len(entry.shape) != 1:
            raise CorruptCheckpointError(self._path, f"has no list in {FREQUENCY_DIVISORS}")
        divisors: list[float] = self._dequantised(FREQUENCY_DIVISORS, entry).tolist()
        return divisors

    def _check_places(self) -> None:
        """Whether all tensors lie in the file, one after the other."""
        end, previous = 0, ""
        by_offset = sorted(self._header.tensors.items(), key=lambda item: item[1].offset)
        for name, entry in by_offset:
            if entry.offset < end:
                raise CorruptCheckpointError(
                    self._path, f"has tensors {previous} and {name} in the same bytes"
                )
            end, previous = entry.offset + _stored_bytes(self._path, name, entry), name
        if self._header.data_offset + end > self._file.size:
            raise CorruptCheckpointError(
                self._path,
                f"is truncated: tensor {previous} ends at byte {self._header.data_offset + end}, "
                f"the file at {self._file.size}; download it again",
            )

    def _check_tensors(self) -> None:
        check_tensors(
            self._path,
            self.config,
            {name: entry.shape for name, entry in self._header.tensors.items()},
            gguf_name,
            # Angles that old conversions stored and nobody reads.
            lambda name: name == FREQUENCY_DIVISORS or name.endswith(".attn_rot_embd.weight"),
        )


def _halves_rotated(values: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Undoes the interleaving of RoPE pairs that GGUF conversion applies to Q and K rows."""
    rows, *columns = values.shape
    pairs = values.reshape(heads, rows // heads // 2, 2, *columns)
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(values.shape))


def _quantisation(path: Path, entry: TensorEntry) -> GGMLQuantizationType:
    try:
        return GGMLQuantizationType(entry.ggml_type)
    except ValueError as error:
        raise UnsupportedModelError(
            path, f"uses tensor type {entry.ggml_type}, which is unknown"
        ) from error


def _stored_bytes(path: Path, name: str, entry: TensorEntry) -> int:
    block, block_bytes = GGML_QUANT_SIZES[_quantisation(path, entry)]
    if not entry.shape or entry.shape[-1] % block:
        raise CorruptCheckpointError(
            path, f"has tensor {name} of shape {list(entry.shape)} in blocks of {block}"
        )
    return entry.num_elements // block * block_bytes
