"""Whether a checkpoint's numbers and tensors fit together, so that nonsense is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from paceline_engine.weights.errors import CorruptCheckpointError, UnsupportedModelError
from paceline_engine.weights.model_config import ModelConfig

Shape = tuple[int, ...]

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
_WIDEST_HEAD = 1 << 16


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


def check_head_dim(path: Path, head_dim: int) -> None:
    """Whether tables over the width of a head may be made.

    Raises:
        CorruptCheckpointError: No head is that wide.
    """
    if head_dim > _WIDEST_HEAD:
        raise CorruptCheckpointError(path, f"states head_dim as {head_dim}")


def check_tensors(
    path: Path,
    config: ModelConfig,
    found: Mapping[str, Shape],
    stored_name: Callable[[str], str],
    is_unused: Callable[[str], bool],
) -> None:
    """Compares what a checkpoint holds with what its model needs.

    Args:
        path: File or directory, for errors.
        config: The model.
        found: Shapes by the checkpoint's own names.
        stored_name: The checkpoint's name of a tensor under Hugging Face's name.
        is_unused: Which of the checkpoint's further tensors mean nothing for the result.

    Raises:
        CorruptCheckpointError: One is absent or of another shape.
        UnsupportedModelError: There is one that would be left out of the computation.
    """
    needed = set()
    for name, shape in expected_tensors(config):
        stored = stored_name(name)
        needed.add(stored)
        if stored not in found:
            raise CorruptCheckpointError(path, f"has no tensor {stored}; download it again")
        if found[stored] != shape:
            raise CorruptCheckpointError(
                path,
                f"has tensor {stored} of shape {list(found[stored])} where {list(shape)} belongs",
            )
    for stored in sorted(found.keys() - needed):
        if not is_unused(stored):
            raise UnsupportedModelError(
                path,
                f"has tensor {stored}, which a {config.architecture} of this configuration does "
                "not have; without it the result would be wrong",
            )


def expected_tensors(config: ModelConfig) -> Iterator[tuple[str, Shape]]:
    """Names and shapes of all tensors, [out, in] for a matrix, one layer after the other."""
    table = (config.vocab_size, config.hidden_size)
    yield "model.embed_tokens.weight", table
    yield "model.norm.weight", (config.hidden_size,)
    if not config.tied_embeddings:
        yield "lm_head.weight", table
    parts = list(_layer_tensors(config))
    for layer in range(config.num_layers):
        for part, shape in parts:
            yield f"model.layers.{layer}.{part}", shape


def _layer_tensors(config: ModelConfig) -> Iterator[tuple[str, Shape]]:
    hidden, inner = config.hidden_size, config.intermediate_size
    yield "input_layernorm.weight", (hidden,)
    yield "post_attention_layernorm.weight", (hidden,)
    projections = (
        ("self_attn.q_proj", config.q_size, hidden, config.qkv_bias),
        ("self_attn.k_proj", config.kv_size, hidden, config.qkv_bias),
        ("self_attn.v_proj", config.kv_size, hidden, config.qkv_bias),
        ("self_attn.o_proj", hidden, config.q_size, config.output_bias),
        ("mlp.gate_proj", inner, hidden, config.mlp_bias),
        ("mlp.up_proj", inner, hidden, config.mlp_bias),
        ("mlp.down_proj", hidden, inner, config.mlp_bias),
    )
    for name, rows, columns, has_bias in projections:
        yield f"{name}.weight", (rows, columns)
        if has_bias:
            yield f"{name}.bias", (rows,)
    if config.qk_norm:
        yield "self_attn.q_norm.weight", (config.head_dim,)
        yield "self_attn.k_norm.weight", (config.head_dim,)


def check_finite(path: Path, name: str, values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns `values` if all are finite; a single NaN would fail every request.

    Raises:
        CorruptCheckpointError: One is not.
    """
    if not (np.isfinite(values.min()) and np.isfinite(values.max())):
        raise CorruptCheckpointError(
            path, f"has values in tensor {name} that are not finite; download it again"
        )
    return values
