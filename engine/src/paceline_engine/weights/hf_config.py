"""config.json of a Hugging Face directory as a `ModelConfig`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from paceline_engine.weights import rope
from paceline_engine.weights.consistency import check_config, check_head_dim
from paceline_engine.weights.errors import UnsupportedModelError
from paceline_engine.weights.families import FAMILIES, MODEL_TYPES, Family, Window
from paceline_engine.weights.fields import Fields
from paceline_engine.weights.json_object import read_json_object
from paceline_engine.weights.model_config import ModelConfig
from paceline_engine.weights.rope import Rope

CONFIG_FILE: Final = "config.json"
# What transformers takes where config.json names none.
_THETA: Final = 10_000.0
_EPS: Final = 1e-6
_MISTRAL_WINDOW: Final = 4096
_FULL_LAYERS: Final = 28
_SLIDING: Final = "sliding_attention"
_FULL: Final = "full_attention"


def read_config(directory: Path) -> ModelConfig:
    """Reads the model's shape from the directory's config.json.

    Raises:
        CheckpointError: The file is missing, damaged or of another family; one line.
    """
    path = directory / CONFIG_FILE
    fields = Fields(path, read_json_object(path))
    family = _family(fields)
    _refuse_unsupported(fields)
    num_heads, hidden_size = fields.integer("num_attention_heads"), fields.integer("hidden_size")
    head_dim = fields.integer("head_dim", family.head_dim or hidden_size // max(num_heads, 1))
    check_head_dim(path, head_dim)
    num_layers, context = (
        fields.integer("num_hidden_layers"),
        fields.integer("max_position_embeddings"),
    )
    embedding = _rope(fields, head_dim, context)
    config = ModelConfig(
        architecture=fields.text("model_type"),
        vocab_size=fields.integer("vocab_size"),
        hidden_size=hidden_size,
        intermediate_size=fields.integer("intermediate_size"),
        num_layers=num_layers,
        num_heads=num_heads,
        num_kv_heads=fields.integer("num_key_value_heads", num_heads),
        head_dim=head_dim,
        context_length=min(context, embedding.longest or context),
        rope_theta=embedding.theta,
        rms_norm_eps=fields.positive("rms_norm_eps", _EPS),
        tied_embeddings=fields.flag("tie_word_embeddings"),
        rope_divisors=embedding.divisors,
        rope_amplitude=embedding.amplitude,
        qkv_bias=_has(fields, family.qkv_bias),
        output_bias=_has(fields, family.output_bias),
        mlp_bias=_has(fields, family.mlp_bias),
        qk_norm=family.qk_norm,
        windows=_windows(fields, family, num_layers, context),
    )
    return check_config(path, config)


def _family(fields: Fields) -> Family:
    model_type = fields.text("model_type")
    family = FAMILIES.get(model_type)
    if family is None:
        known = ", ".join(map(repr, MODEL_TYPES))
        raise UnsupportedModelError(
            fields.path, f"has model_type {model_type!r}; supported is one of {known}"
        )
    return family


def _has(fields: Fields, rule: bool | str) -> bool:  # noqa: FBT001  (a rule of the family table)
    return fields.flag(rule) if isinstance(rule, str) else rule


def _refuse_unsupported(fields: Fields) -> None:
    activation = fields.text("hidden_act", "silu")
    if activation != "silu":
        raise UnsupportedModelError(fields.path, f"uses activation {activation!r}, not 'silu'")
    if fields.has("quantization_config"):
        raise UnsupportedModelError(fields.path, "is quantised, which is not supported yet")


def _windows(fields: Fields, family: Family, num_layers: int, context: int) -> tuple[int, ...]:
    """Tokens each layer sees; none where every layer sees the whole context."""
    if family.window is Window.ALL:
        is_off = "sliding_window" in fields.values and not fields.has("sliding_window")
        first_layer = 0
    elif family.window is Window.CHOSEN:
        is_off = not (fields.flag("use_sliding_window") and fields.has("sliding_window"))
        first_layer = fields.integer("max_window_layers", _FULL_LAYERS)
    else:
        is_off, first_layer = True, 0
    if is_off:
        return ()
    tokens = int(fields.positive("sliding_window", _MISTRAL_WINDOW))
    if tokens >= context:
        return ()
    # A damaged number of layers is found when the first missing tensor is named.
    shown = range(min(num_layers, 1 << 16))
    kinds = _layer_types(fields) or [_SLIDING if n >= first_layer else _FULL for n in shown]
    return tuple(tokens if kind == _SLIDING else 0 for kind in kinds)


def _layer_types(fields: Fields) -> list[str]:
    kinds = fields.values.get("layer_types")
    if kinds is None:
        return []
    is_known = isinstance(kinds, list) and all(kind in (_SLIDING, _FULL) for kind in kinds)
    if not is_known or len(kinds) != fields.integer("num_hidden_layers"):
        raise UnsupportedModelError(
            fields.path, f"has layer_types other than {_FULL!r} and {_SLIDING!r} for each layer"
        )
    return list(kinds)


def _rope(fields: Fields, head_dim: int, context: int) -> Rope:
    name = "rope_scaling" if fields.values.get("rope_scaling") else "rope_parameters"
    scaling = fields.inner(name)
    theta = scaling.positive("rope_theta", fields.positive("rope_theta", _THETA))
    kind = scaling.text("rope_type", scaling.text("type", "default"))
    _refuse_partial(fields, scaling)
    if kind in ("default", "dynamic"):
        # Dynamic scaling begins beyond max_position_embeddings, which no request exceeds.
        return Rope(theta=theta)
    if kind == "linear":
        factor = scaling.positive("factor")
        return Rope(theta=theta, divisors=rope.linear_divisors(head_dim, factor))
    original = fields.positive(
        "original_max_position_embeddings",
        scaling.positive("original_max_position_embeddings", context or None),
    )
    if kind == "llama3":
        return _llama3(scaling, head_dim, theta, original)
    if kind == "yarn":
        return _yarn(scaling, head_dim, theta, original, context)
    if kind == "longrope":
        return _longrope(scaling, head_dim, theta, original, context)
    raise UnsupportedModelError(fields.path, f"uses {kind} RoPE scaling, which is not supported")


def _refuse_partial(fields: Fields, scaling: Fields) -> None:
    if any(isinstance(value, dict) for value in scaling.values.values()):
        raise UnsupportedModelError(
            fields.path, "has a RoPE for each kind of layer, which is not supported"
        )
    share = scaling.number("partial_rotary_factor", fields.number("partial_rotary_factor", 1.0))
    if share != 1.0:
        raise UnsupportedModelError(
            fields.path, f"rotates {share} of a head; supported is all of it"
        )
    if scaling.has("mrope_section"):
        raise UnsupportedModelError(fields.path, "uses multimodal RoPE, which is not supported")


def _llama3(scaling: Fields, head_dim: int, theta: float, original: float) -> Rope:
    low, high = scaling.positive("low_freq_factor"), scaling.positive("high_freq_factor")
    divisors = rope.llama3_divisors(
        head_dim,
        theta,
        factor=scaling.positive("factor"),
        low=low,
        high=max(high, low * (1 + 1e-9)),
        original=original,
    )
    return Rope(theta=theta, divisors=divisors)


def _yarn(scaling: Fields, head_dim: int, theta: float, original: float, context: int) -> Rope:
    if theta <= 1:
        raise UnsupportedModelError(scaling.path, f"uses yarn with rope_theta {theta}")
    factor = scaling.positive("factor", context / original)
    yarn = rope.Yarn(
        factor=factor,
        original=original,
        beta_fast=scaling.positive("beta_fast", 32.0),
        beta_slow=scaling.positive("beta_slow", 1.0),
        truncate=scaling.flag("truncate", default=True),
    )
    amplitude = scaling.positive("attention_factor", _yarn_amplitude(scaling, factor))
    return Rope(
        theta=theta, divisors=rope.yarn_divisors(head_dim, theta, yarn), amplitude=amplitude
    )


def _yarn_amplitude(scaling: Fields, factor: float) -> float:
    weights = scaling.number("mscale", 0.0), scaling.number("mscale_all_dim", 0.0)
    if min(weights) <= 0:
        return rope.yarn_amplitude(factor)
    return rope.yarn_amplitude(factor, weights[0]) / rope.yarn_amplitude(factor, weights[1])


def _longrope(scaling: Fields, head_dim: int, theta: float, original: float, context: int) -> Rope:
    """The short factors, which hold up to the original context.

    Beyond it other factors hold for the whole sequence, and keys in the cache would have to
    be rotated anew, so the context ends there.
    """
    if original <= 1:
        raise UnsupportedModelError(scaling.path, f"uses longrope from a context of {original}")
    factor = scaling.positive("factor", context / original)
    default = rope.longrope_amplitude(factor, original)
    return Rope(
        theta=theta,
        divisors=scaling.positives("short_factor", head_dim // 2),
        amplitude=scaling.positive("attention_factor", default),
        longest=int(original),
    )
