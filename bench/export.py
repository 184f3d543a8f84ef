"""A GGUF model as a Hugging Face directory, so that both sides read the same weights."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Digits
from tokenizers.pre_tokenizers import Sequence as InOrder

from paceline_engine.tokenizer import load_tokenizer
from paceline_engine.weights import ModelConfig, open_checkpoint
from paceline_engine.weights.file import ModelFile
from paceline_engine.weights.gguf_header import GgufValue, read_header

_FORM: Final = 2  # raised when this module writes something else
_SPECIAL: Final = 3
_LAYER_PARTS: Final = (
    "input_layernorm",
    "post_attention_layernorm",
    *(f"self_attn.{part}_proj" for part in "qkvo"),
    *(f"mlp.{part}_proj" for part in ("gate", "up", "down")),
)


def export(gguf: Path, cache: Path) -> Path:
    """Writes the directory once; later calls find it.

    Args:
        gguf: A model with the `smollm` pre-tokenizer.
        cache: Folder for such directories.
    """
    with gguf.open("rb") as content:
        key = hashlib.file_digest(content, "sha256").hexdigest()[:12]
    target = cache / f"{gguf.stem}-{key}-{_FORM}"
    if not target.is_dir():
        draft = cache / f".{target.name}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        _write_weights(gguf, draft)
        _write_tokenizer(gguf, draft)
        draft.rename(target)
    return target


def _write_weights(gguf: Path, folder: Path) -> None:
    with open_checkpoint(gguf) as checkpoint:
        config = checkpoint.config
        names = ["model.embed_tokens", "model.norm"]
        names += [] if config.tied_embeddings else ["lm_head"]
        names += [
            f"model.layers.{n}.{part}" for n in range(config.num_layers) for part in _LAYER_PARTS
        ]
        tensors = {
            f"{name}.weight": np.ascontiguousarray(checkpoint.tensor(f"{name}.weight"))
            for name in names
        }
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    _dump(folder / "config.json", _config(config))
    ends = load_tokenizer(str(gguf)).eos_token_ids
    _dump(folder / "generation_config.json", {"eos_token_id": list(ends)})


def _config(model: ModelConfig) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": model.vocab_size,
        "hidden_size": model.hidden_size,
        "intermediate_size": model.intermediate_size,
        "num_hidden_layers": model.num_layers,
        "num_attention_heads": model.num_heads,
        "num_key_value_heads": model.num_kv_heads,
        "head_dim": model.head_dim,
        "max_position_embeddings": model.context_length,
        "rope_theta": model.rope_theta,
        "rms_norm_eps": model.rms_norm_eps,
        "hidden_act": "silu",
        "tie_word_embeddings": model.tied_embeddings,
        "dtype": "float32",
    }


def _write_tokenizer(gguf: Path, folder: Path) -> None:
    metadata = _metadata(gguf)
    tokens = [str(token) for token in _listing(metadata, "tokens")]
    merges = [_pair(str(merge)) for merge in _listing(metadata, "merges")]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = InOrder(
        [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = ByteLevelDecoder()
    kinds = _listing(metadata, "token_type")
    tokenizer.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False)
            for token, kind in zip(tokens, kinds, strict=True)
            if kind == _SPECIAL
        ]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    _dump(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})


def _pair(merge: str) -> tuple[str, str]:
    first, second = merge.split(" ", 1)
    return first, second


def _metadata(gguf: Path) -> dict[str, GgufValue]:
    with ModelFile(gguf) as file:
        metadata = read_header(file).metadata
    kind = metadata.get("tokenizer.ggml.pre")
    if kind != "smollm":
        raise ValueError(f"{gguf} has pre-tokenizer {kind!r}; the export knows 'smollm' only")
    return metadata


def _listing(metadata: dict[str, GgufValue], key: str) -> Sequence[object]:
    value = metadata[f"tokenizer.ggml.{key}"]
    if not isinstance(value, list):
        raise TypeError(f"tokenizer.ggml.{key} is no list")
    return value


def _dump(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1))
