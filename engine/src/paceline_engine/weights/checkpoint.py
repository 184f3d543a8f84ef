"""What a loaded checkpoint offers the model, and the functions that open one."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from paceline_engine.weights.errors import CheckpointNotFoundError
from paceline_engine.weights.model_config import ModelConfig


class Checkpoint(Protocol):
    """Named fp32 tensors under Hugging Face's names, read from a memory map on demand.

    `model.embed_tokens`, `model.layers.N.self_attn.{q,k,v,o}_proj`, ... each followed by
    `.weight`; linear weights are [out, in] with halves-rotated RoPE rows.
    """

    config: ModelConfig

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Reads one tensor; the array may be a read-only view of the file.

        Raises:
            CorruptCheckpointError: The tensor is absent or its bytes are cut short.
            UnsupportedModelError: Its storage type is unknown.
        """
        ...

    def close(self) -> None:
        """Releases the memory map; arrays handed out stay valid."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def read_model_config(path: str | Path) -> ModelConfig:
    """Reads a model's shape from metadata alone, without torch or any weight.

    Args:
        path: GGUF file, or Hugging Face directory with config.json and safetensors.

    Raises:
        CheckpointError: Missing, damaged or unsupported; one clear line.
    """
    from paceline_engine.weights import gguf, safetensors  # noqa: PLC0415 (each needs its library)

    if _is_directory(path):
        return safetensors.read_directory_config(Path(path))
    return gguf.read_file_config(Path(path))


def open_checkpoint(path: str | Path) -> Checkpoint:
    """Opens a checkpoint for reading tensors.

    Args:
        path: As for `read_model_config`.

    Raises:
        CheckpointError: Missing, damaged or unsupported; one clear line.
    """
    from paceline_engine.weights import gguf, safetensors  # noqa: PLC0415

    if _is_directory(path):
        return safetensors.SafetensorsCheckpoint(Path(path))
    return gguf.GgufCheckpoint(Path(path))


def _is_directory(path: str | Path) -> bool:
    if not Path(path).exists():
        raise CheckpointNotFoundError(path, "does not exist; give a GGUF file or a directory")
    return Path(path).is_dir()
