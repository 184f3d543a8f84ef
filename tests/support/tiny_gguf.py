"""A small Llama-shaped GGUF file, written by the reference `gguf` package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from tests.support import tiny_llama

# Rows are multiples of 256, so that every block format fits.
SHAPE: dict[str, Any] = tiny_llama.SHAPE | {
    "vocab_size": 40,
    "hidden_size": 256,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "num_hidden_layers": 1,
    "tie_word_embeddings": True,
}
NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.layers.0.input_layernorm": "blk.0.attn_norm",
    "model.layers.0.self_attn.q_proj": "blk.0.attn_q",
    "model.layers.0.self_attn.k_proj": "blk.0.attn_k",
    "model.layers.0.self_attn.v_proj": "blk.0.attn_v",
    "model.layers.0.self_attn.o_proj": "blk.0.attn_output",
    "model.layers.0.post_attention_layernorm": "blk.0.ffn_norm",
    "model.layers.0.mlp.gate_proj": "blk.0.ffn_gate",
    "model.layers.0.mlp.up_proj": "blk.0.ffn_up",
    "model.layers.0.mlp.down_proj": "blk.0.ffn_down",
}
TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "a", "b")


def interleaved(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """What GGUF conversion does to Q and K rows: pairs (i, i + half) become neighbours."""
    rows, columns = weight.shape
    halves = weight.reshape(heads, 2, rows // heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(rows, columns)


def stored(name: str, weight: NDArray[np.float32]) -> NDArray[np.float32]:
    if "q_proj" in name:
        return interleaved(weight, SHAPE["num_attention_heads"])
    if "k_proj" in name:
        return interleaved(weight, SHAPE["num_key_value_heads"])
    return weight


def write(
    path: Path,
    weights: Mapping[str, NDArray[np.float32]],
    kind: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    *,
    architecture: str = "llama",
    amend: Callable[[gguf.GGUFWriter], None] = lambda _writer: None,
) -> Path:
    """Writes matrices as `kind` and norms as F32."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(SHAPE["max_position_embeddings"])
    writer.add_embedding_length(SHAPE["hidden_size"])
    writer.add_feed_forward_length(SHAPE["intermediate_size"])
    writer.add_block_count(SHAPE["num_hidden_layers"])
    writer.add_head_count(SHAPE["num_attention_heads"])
    writer.add_head_count_kv(SHAPE["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(SHAPE["rms_norm_eps"])
    writer.add_rope_freq_base(SHAPE["rope_theta"])
    writer.add_token_list(list(TOKENS))
    writer.add_token_types([3, 3, 3, 1, 1])
    writer.add_eos_token_id(2)
    amend(writer)
    for name, weight in weights.items():
        stem, _, suffix = name.rpartition(".")
        values = stored(name, weight)
        gguf_name = f"{NAMES[stem]}.{suffix}"
        if values.ndim == 1:
            writer.add_tensor(gguf_name, values)
        else:
            writer.add_tensor(gguf_name, gguf.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
