"""Small random models of every family, made by transformers, and the same weights as GGUF."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging as transformers_logging

SHAPE: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 72,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 160,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": None,
}
_STEMS = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def make(
    directory: Path,
    model_type: str,
    changes: Mapping[str, Any],
    *,
    dtype: torch.dtype = torch.float32,
    shard_bytes: int | None = None,
) -> PreTrainedModel:
    """Saves a random model; returns it as transformers loads it again, in fp32."""
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    config = AutoConfig.for_model(model_type, **(SHAPE | dict(changes)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # transformers' own deprecations
        model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")  # type: ignore[no-untyped-call]
        _randomise(model)
        size = {} if shard_bytes is None else {"max_shard_size": shard_bytes}
        model.to(dtype).save_pretrained(directory, **size)
        return _loaded(directory)


def _loaded(directory: Path) -> PreTrainedModel:
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager"
    )
    return model.eval()  # type: ignore[no-any-return,no-untyped-call]


def _randomise(model: PreTrainedModel) -> None:
    """Values of a size at which every bias and norm matters; new models have zeros and ones."""
    draw = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if parameter.ndim == 2:
                parameter.normal_(0, 1.5 / parameter.shape[1] ** 0.5, generator=draw)
            elif name.endswith("bias"):
                parameter.normal_(0, 0.4, generator=draw)
            else:
                parameter.uniform_(0.5, 1.5, generator=draw)


def weights_of(model: PreTrainedModel) -> dict[str, NDArray[np.float32]]:
    """fp32 weights under Hugging Face's names; a tied head is left out."""
    named = {name: value.numpy() for name, value in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        named.pop("lm_head.weight", None)
    return named


def write_gguf(path: Path, directory: Path, weights: Mapping[str, NDArray[np.float32]]) -> Path:
    """Writes the model of `directory` as llama.cpp's converter would."""
    config = json.loads((directory / "config.json").read_text())
    architecture = {"mistral": "llama"}.get(config["model_type"], config["model_type"])
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    if head_dim * config["num_attention_heads"] != config["hidden_size"]:
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    if config["model_type"] == "mistral" and config["sliding_window"]:
        writer.add_sliding_window(config["sliding_window"])
    _add_rope(writer, config["rope_parameters"], head_dim)
    for name, value in weights.items():
        stored = value
        if architecture == "llama" and ".q_proj." in name:
            stored = _interleaved(value, config["num_attention_heads"])
        if architecture == "llama" and ".k_proj." in name:
            stored = _interleaved(value, config["num_key_value_heads"])
        writer.add_tensor(gguf_name(name), np.ascontiguousarray(stored))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def gguf_name(name: str) -> str:
    stem, _, suffix = name.rpartition(".")
    if match := re.fullmatch(r"model\.layers\.(\d+)\.(.+)", stem):
        return f"blk.{match[1]}.{_STEMS[match[2]]}.{suffix}"
    return f"{_STEMS[stem]}.{suffix}"


def _interleaved(value: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    halves = value.reshape(heads, 2, value.shape[0] // heads // 2, *value.shape[1:])
    return halves.swapaxes(1, 2).reshape(value.shape)


def _add_rope(writer: gguf.GGUFWriter, rope: Mapping[str, Any], head_dim: int) -> None:
    writer.add_rope_freq_base(rope["rope_theta"])
    kind = rope["rope_type"]
    if kind == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    elif kind == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    elif kind == "llama3":
        writer.add_tensor("rope_freqs.weight", _llama3_factors(rope, head_dim))


def _llama3_factors(rope: Mapping[str, Any], head_dim: int) -> NDArray[np.float32]:
    low, high, factor = (rope[k] for k in ("low_freq_factor", "high_freq_factor", "factor"))
    original = rope["original_max_position_embeddings"]
    factors = []
    for pair in range(head_dim // 2):
        turns = original / (2 * math.pi * rope["rope_theta"] ** (2 * pair / head_dim))
        smooth = min(max((turns - low) / (high - low), 0.0), 1.0)
        factors.append(1 / (smooth + (1 - smooth) / factor))
    return np.array(factors, np.float32)
