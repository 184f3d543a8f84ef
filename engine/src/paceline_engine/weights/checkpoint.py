"""What a loaded checkpoint offers the model, and the functions that open one."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from paceline_engine.weights.errors import CheckpointNotFoundError, CorruptCheckpointError
from paceline_engine.weights.model_config import ModelConfig

if TYPE_CHECKING:  # the tokenizer reads headers without numpy
    import numpy as np
    from numpy.typing import NDArray


class Checkpoint(Protocol):
    """Named fp32 tensors under Hugging Face's names, read on demand.

    `model.embed_tokens`, `model.layers.N.self_attn.{q,k,v,o}_proj`, ... each followed by
    `.weight` or `.bias`; linear weights are [out, in] with halves-rotated RoPE rows. That all
    tensors are there, in the right shapes, is checked when the checkpoint is opened.
    """

    config: ModelConfig

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Reads one tensor into memory of its own.

        Raises:
            CorruptCheckpointError: The tensor is absent, cut short, not finite, or the file
                changed since it was opened.
            UnsupportedModelError: Its storage type is unknown.
        """
        ...

    def close(self) -> None:
        """Closes the files; arrays handed out stay valid."""
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
    from paceline_engine.weights import gguf, safetensors  # noqa: PLC0415 (numpy, gguf)

    if is_directory(path):
        return safetensors.read_directory_config(Path(path))
    return gguf.read_file_config(Path(path))


def open_checkpoint(path: str | Path) -> Checkpoint:
    """Opens a checkpoint for reading tensors.

    Args:
        path: As for `read_model_config`.

    Raises:
        CheckpointError: Missing, damaged or unsupported; one clear line.
    """
    from paceline_engine.weights import gguf, safetensors  # noqa: PLC0415 (numpy, gguf)

    if is_directory(path):
        return safetensors.SafetensorsCheckpoint(Path(path))
    return gguf.GgufCheckpoint(Path(path))


def is_directory(path: str | Path) -> bool:
    """Whether a model's path leads to a directory, and not to a file.

    Raises:
        CheckpointError: It leads nowhere, or may not be followed.
    """
    try:
        Path(path).stat()
    except FileNotFoundError as error:
        raise CheckpointNotFoundError(
            path, "does not exist; give a GGUF file or a directory"
        ) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CorruptCheckpointError(path, f"cannot be read: {reason}") from error
    return Path(path).is_dir()
