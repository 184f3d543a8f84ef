"""Checkpoints: GGUF files and Hugging Face directories as one named set of fp32 tensors.

No torch is imported here; the server reads a model's shape without it, and what needs numpy
is imported when it is called:

    read_model_config(path: str | Path) -> ModelConfig
        vocab_size, context_length (longest sequence), kv_bytes_per_token,
        resident_weight_bytes, ... Raises CheckpointError, whose text is one line.

The memory plan is beside the runners and needs no torch either; see
`paceline_engine.runner.memory_plan` for the call:

    plan_memory(model, *, available_bytes, max_model_len, max_num_batched_tokens,
                max_num_seqs, block_size, num_kv_blocks=None) -> MemoryPlan
        .num_kv_blocks, .kv_bytes, .arithmetic. Raises InsufficientMemoryError, one line.
    blocks_in(kv_bytes, model, block_size) -> int
    paceline_engine.runner.memory_limit.available_memory_bytes() -> int
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
