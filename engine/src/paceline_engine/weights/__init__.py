"""Checkpoints: GGUF files and Hugging Face directories as one named set of fp32 tensors.

No torch is imported here; the server reads a model's shape through `read_model_config`.
"""

from paceline_engine.weights.checkpoint import Checkpoint, open_checkpoint, read_model_config
from paceline_engine.weights.errors import (
    CheckpointError,
    CheckpointNotFoundError,
    CorruptCheckpointError,
    UnsupportedModelError,
)
from paceline_engine.weights.model_config import ModelConfig

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "CheckpointNotFoundError",
    "CorruptCheckpointError",
    "ModelConfig",
    "UnsupportedModelError",
    "open_checkpoint",
    "read_model_config",
]
