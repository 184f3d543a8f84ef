"""The smallest whole models on disk, tokenizer included, for tests that damage them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
from tokenizers import AddedToken, decoders, pre_tokenizers
from tokenizers import Tokenizer as Library
from tokenizers.models import BPE

from tests.support import tiny_families, tiny_gguf, tiny_llama

SHAPE: dict[str, Any] = tiny_llama.SHAPE | {
    "vocab_size": 8,
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "max_position_embeddings": 16,
}
TOKENS = ("<s>", "<|im_end|>", "a", "b", "ab", "Ġ", "Ċ", "c")
KINDS = (3, 3, 1, 1, 1, 1, 1, 1)
TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"


def write_directory(directory: Path) -> Path:
    """A Hugging Face directory."""
    tiny_llama.write(directory, SHAPE)
    library = Library(BPE(vocab={t: i for i, t in enumerate(TOKENS)}, merges=[("a", "b")]))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens([AddedToken(TOKENS[0]), AddedToken(TOKENS[1])])
    library.save(str(directory / "tokenizer.json"))
    options = {"bos_token": "<s>", "eos_token": "<|im_end|>", "chat_template": TEMPLATE}
    (directory / "tokenizer_config.json").write_text(json.dumps(options))
    (directory / "generation_config.json").write_text(json.dumps({"eos_token_id": [1]}))
    return directory


def write_gguf(path: Path) -> Path:
    """The same as one GGUF file."""
    weights = tiny_llama.tensors(SHAPE)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(SHAPE["max_position_embeddings"])
    writer.add_embedding_length(SHAPE["hidden_size"])
    writer.add_feed_forward_length(SHAPE["intermediate_size"])
    writer.add_block_count(SHAPE["num_hidden_layers"])
    writer.add_head_count(SHAPE["num_attention_heads"])
    writer.add_head_count_kv(SHAPE["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(SHAPE["rms_norm_eps"])
    writer.add_rope_freq_base(SHAPE["rope_theta"])
    writer.add_rope_dimension_count(SHAPE["head_dim"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(list(TOKENS))
    writer.add_token_types(list(KINDS))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_add_bos_token(True)
    writer.add_chat_template(TEMPLATE)
    for name, value in weights.items():
        stem = name.rpartition(".")[0]
        heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}.get(
            stem.rpartition(".")[2]
        )
        stored = tiny_gguf.interleaved(value, SHAPE[heads]) if heads else value
        writer.add_tensor(tiny_families.gguf_name(name), stored.copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
