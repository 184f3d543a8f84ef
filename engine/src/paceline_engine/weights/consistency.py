"""Whether a checkpoint's numbers fit together, so that nonsense is refused and not computed."""

from __future__ import annotations

from pathlib import Path

from paceline_engine.weights.errors import CorruptCheckpointError
from paceline_engine.weights.model_config import ModelConfig

_POSITIVE = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_layers",
    "num_heads",
    "num_kv_heads",
    "head_dim",
    "context_length",
)


def check_config(path: Path, config: ModelConfig) -> ModelConfig:
    """Returns `config` if its sizes can belong to a model.

    Raises:
        CorruptCheckpointError: Names the first size that cannot.
    """
    for name in _POSITIVE:
        if getattr(config, name) < 1:
            raise CorruptCheckpointError(path, f"states {name} as {getattr(config, name)}")
    if config.num_heads % config.num_kv_heads:
        raise CorruptCheckpointError(
            path, f"has {config.num_heads} heads, no multiple of {config.num_kv_heads} KV heads"
        )
    if config.head_dim % 2:
        raise CorruptCheckpointError(path, f"has heads of odd width {config.head_dim}")
    return config


def check_tensor(path: Path, config: ModelConfig, name: str, shape: tuple[int, ...]) -> None:
    """Compares a tensor's shape with what the model's sizes ask for.

    Raises:
        CorruptCheckpointError: They differ.
    """
    expected = expected_shape(config, name)
    if shape != expected:
        raise CorruptCheckpointError(
            path, f"has tensor {name} of shape {list(shape)} where {list(expected)} belongs"
        )


def expected_shape(config: ModelConfig, name: str) -> tuple[int, ...]:
    """Shape of the tensor `name`, [out, in] for a matrix."""
    hidden, inner = config.hidden_size, config.intermediate_size
    parts = {
        "embed_tokens": (config.vocab_size, hidden),
        "lm_head": (config.vocab_size, hidden),
        "q_proj": (config.q_size, hidden),
        "k_proj": (config.kv_size, hidden),
        "v_proj": (config.kv_size, hidden),
        "o_proj": (hidden, config.q_size),
        "gate_proj": (inner, hidden),
        "up_proj": (inner, hidden),
        "down_proj": (hidden, inner),
    }
    return parts.get(name.removesuffix(".weight").rpartition(".")[2], (hidden,))
