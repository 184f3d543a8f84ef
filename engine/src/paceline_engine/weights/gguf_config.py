"""Metadata of a GGUF file as a `ModelConfig`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from paceline_engine.weights import rope
from paceline_engine.weights.consistency import check_config, check_head_dim
from paceline_engine.weights.errors import CorruptCheckpointError, UnsupportedModelError
from paceline_engine.weights.families import FAMILIES, GGUF_ARCHITECTURES, Family
from paceline_engine.weights.fields import Fields, positive_numbers
from paceline_engine.weights.gguf_header import TensorEntry
from paceline_engine.weights.gguf_names import FREQUENCY_DIVISORS
from paceline_engine.weights.model_config import ModelConfig
from paceline_engine.weights.rope import Rope

_THETA: Final = 10_000.0
_EPS: Final = 1e-5
# Keys by which a file changes the computation in ways that are not built here, with the
# values that change nothing.
_NEUTRAL: Final[Mapping[str, tuple[object, ...]]] = {
    "expert_count": (0,),
    "attention.sliding_window_pattern": (),
    "attention.scale": (0.0,),
    "attention.causal": (True,),
    "logit_scale": (0.0, 1.0),
    "embedding_scale": (0.0, 1.0),
    "residual_scale": (0.0, 1.0),
    "rope.scaling.attn_factor": (1.0,),
    "rope.scaling.yarn_attn_factor": (),
    "rope.scaling.yarn_ext_factor": (1.0,),
    "rope.scaling.yarn_log_multiplier": (0.0,),
}


def read_config(
    path: Path,
    metadata: Mapping[str, object],
    tensors: Mapping[str, TensorEntry],
    frequency_divisors: Sequence[float],
) -> ModelConfig:
    """Reads the model's shape.

    Args:
        path: The file, for errors.
        metadata: Its key-value section.
        tensors: Its tensor directory.
        frequency_divisors: Content of its tensor `rope_freqs.weight`, if it has one.

    Raises:
        CheckpointError: Damaged or of another architecture; one line.
    """
    architecture, fields = _own_fields(path, metadata)
    family = FAMILIES[architecture]
    _refuse_unsupported(fields)
    num_heads, hidden_size = (
        fields.integer("attention.head_count"),
        fields.integer("embedding_length"),
    )
    head_dim = _head_dim(fields, hidden_size // max(num_heads, 1))
    num_layers, context = fields.integer("block_count"), fields.integer("context_length")
    embedding = _rope(fields, head_dim, context, frequency_divisors)
    config = ModelConfig(
        architecture=architecture,
        vocab_size=_embedding_rows(path, tensors),
        hidden_size=hidden_size,
        intermediate_size=fields.integer("feed_forward_length"),
        num_layers=num_layers,
        num_heads=num_heads,
        num_kv_heads=fields.integer("attention.head_count_kv", num_heads),
        head_dim=head_dim,
        context_length=context,
        rope_theta=embedding.theta,
        rms_norm_eps=fields.positive("attention.layer_norm_rms_epsilon", _EPS),
        tied_embeddings="output.weight" not in tensors,
        rope_divisors=embedding.divisors,
        rope_amplitude=embedding.amplitude,
        qkv_bias=family.qkv_bias is True or "blk.0.attn_q.bias" in tensors,
        output_bias="blk.0.attn_output.bias" in tensors,
        mlp_bias="blk.0.ffn_down.bias" in tensors,
        qk_norm=family.qk_norm,
        windows=_windows(fields, family, num_layers, context),
    )
    return check_config(path, config)


def _own_fields(path: Path, metadata: Mapping[str, object]) -> tuple[str, Fields]:
    """The architecture, and the values under its name without it."""
    architecture = metadata.get("general.architecture")
    if architecture not in GGUF_ARCHITECTURES:
        known = ", ".join(map(repr, GGUF_ARCHITECTURES))
        raise UnsupportedModelError(
            path, f"has architecture {architecture!r}; supported is one of {known}"
        )
    prefix = f"{architecture}."
    own = {key.removeprefix(prefix): v for key, v in metadata.items() if key.startswith(prefix)}
    for key, value in own.items():
        if isinstance(value, list):
            raise UnsupportedModelError(
                path, f"states {key} for each layer; supported is one value for all"
            )
    return str(architecture), Fields(path, own)


def _refuse_unsupported(fields: Fields) -> None:
    for key, neutral in _NEUTRAL.items():
        if key in fields.values and fields.values[key] not in neutral:
            value = fields.values[key]
            raise UnsupportedModelError(fields.path, f"has {key} {value}, which is not supported")


def _head_dim(fields: Fields, default: int) -> int:
    head_dim = fields.integer("attention.key_length", default)
    check_head_dim(fields.path, head_dim)
    if fields.integer("attention.value_length", head_dim) != head_dim:
        raise UnsupportedModelError(fields.path, "has values of another width than its keys")
    rotated = fields.integer("rope.dimension_count", head_dim)
    if rotated != head_dim:
        raise UnsupportedModelError(
            fields.path,
            f"rotates {rotated} of {head_dim} dimensions of a head; supported is all of them",
        )
    return head_dim


def _embedding_rows(path: Path, tensors: Mapping[str, TensorEntry]) -> int:
    entry = tensors.get("token_embd.weight")
    if entry is None or len(entry.shape) != 2:
        raise CorruptCheckpointError(path, "has no token_embd.weight matrix")
    return entry.shape[0]


def _windows(fields: Fields, family: Family, num_layers: int, context: int) -> tuple[int, ...]:
    tokens = fields.integer("attention.sliding_window", 0)
    if not tokens or tokens >= context:
        return ()
    if not family.interleaved:
        raise UnsupportedModelError(
            fields.path, f"has a window of {tokens} tokens and does not say in which layers"
        )
    return (tokens,) * min(num_layers, 1 << 16)


def _rope(fields: Fields, head_dim: int, context: int, divisors: Sequence[float]) -> Rope:
    """As llama.cpp: a factor without a kind is linear."""
    theta = fields.positive("rope.freq_base", _THETA)
    factor = fields.number("rope.scaling.factor", fields.number("rope.scale_linear", 0.0)) or 1.0
    kind = fields.text("rope.scaling.type", "linear")
    if kind not in ("none", "linear", "yarn"):
        raise UnsupportedModelError(
            fields.path, f"uses {kind} RoPE scaling, which is not supported"
        )
    if divisors:
        return _given(fields, head_dim, theta, divisors, is_plain=kind == "none" or factor == 1)
    if kind == "none" or factor == 1:
        return Rope(theta=theta)
    if factor <= 0:
        raise CorruptCheckpointError(fields.path, f"states rope.scaling.factor as {factor}")
    if kind == "linear":
        return Rope(theta=theta, divisors=rope.linear_divisors(head_dim, factor))
    return _yarn(fields, head_dim, theta, factor, context)


def _given(
    fields: Fields, head_dim: int, theta: float, divisors: Sequence[float], *, is_plain: bool
) -> Rope:
    if not is_plain:
        raise UnsupportedModelError(fields.path, f"has {FREQUENCY_DIVISORS} and RoPE scaling")
    if len(divisors) != head_dim // 2:
        raise CorruptCheckpointError(
            fields.path,
            f"has {FREQUENCY_DIVISORS} of {len(divisors)} numbers where {head_dim // 2} belong",
        )
    return Rope(
        theta=theta,
        divisors=positive_numbers(fields.path, FREQUENCY_DIVISORS, list(divisors)),
    )


def _yarn(fields: Fields, head_dim: int, theta: float, factor: float, context: int) -> Rope:
    if theta <= 1:
        raise UnsupportedModelError(fields.path, f"uses yarn with a base of {theta}")
    yarn = rope.Yarn(
        factor=factor,
        original=fields.positive("rope.scaling.original_context_length", context or None),
        beta_fast=fields.positive("rope.scaling.yarn_beta_fast", 32.0),
        beta_slow=fields.positive("rope.scaling.yarn_beta_slow", 1.0),
    )
    return Rope(
        theta=theta,
        divisors=rope.yarn_divisors(head_dim, theta, yarn),
        amplitude=rope.yarn_amplitude(factor),
    )
