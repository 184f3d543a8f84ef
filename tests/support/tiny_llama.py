"""A small Llama-shaped model with random weights, as a Hugging Face directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

SHAPE: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 199,
    "hidden_size": 48,
    "intermediate_size": 104,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "rope_theta": 5000.0,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "eos_token_id": 2,
    "torch_dtype": "float32",
}


def tensors(shape: dict[str, Any], seed: int = 0) -> dict[str, NDArray[np.float32]]:
    """Random weights under Hugging Face's names."""
    draw = np.random.default_rng(seed)
    hidden, inner = shape["hidden_size"], shape["intermediate_size"]
    queries = shape["num_attention_heads"] * shape["head_dim"]
    keys = shape["num_key_value_heads"] * shape["head_dim"]

    def matrix(rows: int, columns: int) -> NDArray[np.float32]:
        drawn: NDArray[np.float64] = draw.normal(0, 1.5 / columns**0.5, (rows, columns))
        return drawn.astype(np.float32)

    def norm() -> NDArray[np.float32]:
        drawn: NDArray[np.float64] = draw.uniform(0.5, 1.5, hidden)
        return drawn.astype(np.float32)

    named = {
        "model.embed_tokens.weight": matrix(shape["vocab_size"], hidden),
        "model.norm.weight": norm(),
    }
    if not shape["tie_word_embeddings"]:
        named["lm_head.weight"] = matrix(shape["vocab_size"], hidden)
    for layer in range(shape["num_hidden_layers"]):
        prefix = f"model.layers.{layer}"
        named |= {
            f"{prefix}.input_layernorm.weight": norm(),
            f"{prefix}.post_attention_layernorm.weight": norm(),
            f"{prefix}.self_attn.q_proj.weight": matrix(queries, hidden),
            f"{prefix}.self_attn.k_proj.weight": matrix(keys, hidden),
            f"{prefix}.self_attn.v_proj.weight": matrix(keys, hidden),
            f"{prefix}.self_attn.o_proj.weight": matrix(hidden, queries),
            f"{prefix}.mlp.gate_proj.weight": matrix(inner, hidden),
            f"{prefix}.mlp.up_proj.weight": matrix(inner, hidden),
            f"{prefix}.mlp.down_proj.weight": matrix(hidden, inner),
        }
    return named


def write(
    directory: Path,
    changes: dict[str, Any] | None = None,
    weights: dict[str, NDArray[np.float32]] | None = None,
) -> Path:
    """Writes config.json and model.safetensors; returns the directory."""
    shape = SHAPE | (changes or {})
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(shape))
    save_file(weights or tensors(shape), directory / "model.safetensors", {"format": "pt"})
    return directory
