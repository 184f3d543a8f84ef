"""GGUF checkpoints: metadata to `ModelConfig`, quantised blocks to fp32."""

from __future__ import annotations

import mmap
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize
from numpy.typing import NDArray

from paceline_engine.weights.consistency import check_config, check_tensor
from paceline_engine.weights.errors import CorruptCheckpointError, UnsupportedModelError
from paceline_engine.weights.gguf_header import (
    GgufHeader,
    MetadataValue,
    TensorEntry,
    read_header,
)
from paceline_engine.weights.model_config import ModelConfig

ARCHITECTURE: Final = "llama"

# Control tokens by which models end a turn, a document or a file section. llama.cpp counts
# the same names as end of generation whatever the file's single eos id says.
END_OF_GENERATION: Final = frozenset(
    {
        "<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>",
        "<end_of_turn>", "<EOT>", "</s>", "<reponame>", "<|repo_name|>", "<|file_sep|>",
    }
)  # fmt: skip
_CONTROL_TOKEN: Final = 3

_LAYER_TENSORS: Final = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_TOP_TENSORS: Final = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}


def read_file_config(path: Path) -> ModelConfig:
    """Reads the model's shape from the header of the GGUF file at `path`."""
    with GgufCheckpoint(path) as checkpoint:
        return checkpoint.config


class GgufCheckpoint:
    """A mapped GGUF file.

    Raises:
        CheckpointError: When built: not GGUF, truncated, or not a Llama-like model.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._data = _map_file(path)
        try:
            self._header = read_header(path, self._data)
            self._check_length()
            self.config = check_config(path, _model_config(path, self._header))
        except Exception:
            self._data.close()
            raise

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Dequantises one tensor; see `Checkpoint.tensor`."""
        entry = self._entry(name)
        check_tensor(self._path, self.config, name, entry.shape)
        values = self._dequantise(name, entry)
        if name.endswith("self_attn.q_proj.weight"):
            return _halves_rotated(values, self.config.num_heads)
        if name.endswith("self_attn.k_proj.weight"):
            return _halves_rotated(values, self.config.num_kv_heads)
        return values

    def close(self) -> None:
        """Unmaps the file; safe to call twice."""
        self._data.close()

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Unmaps the file."""
        self.close()

    def _entry(self, name: str) -> TensorEntry:
        gguf_name = _gguf_name(name)
        entry = self._header.tensors.get(gguf_name)
        if entry is None:
            raise CorruptCheckpointError(self._path, f"has no tensor {gguf_name}")
        return entry

    def _dequantise(self, name: str, entry: TensorEntry) -> NDArray[np.float32]:
        kind = _quantisation(self._path, entry)
        size = _stored_bytes(self._path, entry)
        start = self._header.data_offset + entry.offset
        raw = np.frombuffer(self._data[start : start + size], dtype=np.uint8)
        rows = raw.reshape(*entry.shape[:-1], -1)
        try:
            return dequantize(rows, kind).astype(np.float32, copy=False).reshape(entry.shape)
        except NotImplementedError as error:
            raise UnsupportedModelError(
                self._path, f"tensor {name} is stored as {kind.name}, which cannot be dequantised"
            ) from error

    def _check_length(self) -> None:
        for name, entry in self._header.tensors.items():
            end = self._header.data_offset + entry.offset + _stored_bytes(self._path, entry)
            if end > len(self._data):
                raise CorruptCheckpointError(
                    self._path,
                    f"is truncated: tensor {name} ends at byte {end}, the file at "
                    f"{len(self._data)}; download it again",
                )


def _map_file(path: Path) -> mmap.mmap:
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise CorruptCheckpointError(path, f"cannot be read: {error}") from error


def _gguf_name(name: str) -> str:
    stem, _, suffix = name.rpartition(".")
    if stem in _TOP_TENSORS:
        return f"{_TOP_TENSORS[stem]}.{suffix}"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{_LAYER_TENSORS[part]}.{suffix}"


def _halves_rotated(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Undoes the interleaving of RoPE pairs that GGUF conversion applies to Q and K rows."""
    rows, columns = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, columns)
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(rows, columns))


def _quantisation(path: Path, entry: TensorEntry) -> GGMLQuantizationType:
    try:
        return GGMLQuantizationType(entry.ggml_type)
    except ValueError as error:
        raise UnsupportedModelError(
            path, f"uses tensor type {entry.ggml_type}, which is unknown"
        ) from error


def _stored_bytes(path: Path, entry: TensorEntry) -> int:
    block, block_bytes = GGML_QUANT_SIZES[_quantisation(path, entry)]
    return entry.num_elements // block * block_bytes


class _Metadata:
    """Typed access to the `llama.*` and `tokenizer.ggml.*` keys of one file."""

    def __init__(self, path: Path, header: GgufHeader) -> None:
        self._path = path
        self._values = header.metadata

    def integer(self, key: str, default: int | None = None) -> int:
        value = self._values.get(key, default)
        if not isinstance(value, int):
            raise CorruptCheckpointError(self._path, f"has no whole number under {key}")
        return value

    def number(self, key: str, default: float) -> float:
        value = self._values.get(key, default)
        if not isinstance(value, int | float):
            raise CorruptCheckpointError(self._path, f"has no number under {key}")
        return float(value)

    def listing(self, key: str) -> list[MetadataValue]:
        value = self._values.get(key, [])
        return value if isinstance(value, list) else []


def _model_config(path: Path, header: GgufHeader) -> ModelConfig:
    architecture = header.metadata.get("general.architecture")
    if architecture != ARCHITECTURE:
        raise UnsupportedModelError(
            path, f"has architecture {architecture!r}; supported is {ARCHITECTURE!r}"
        )
    _refuse_unsupported(path, header)
    meta = _Metadata(path, header)
    num_heads = meta.integer("llama.attention.head_count")
    hidden_size = meta.integer("llama.embedding_length")
    head_dim = meta.integer("llama.attention.key_length", hidden_size // max(num_heads, 1))
    rotated = meta.integer("llama.rope.dimension_count", head_dim)
    if rotated != head_dim:
        raise UnsupportedModelError(
            path, f"rotates {rotated} of {head_dim} dimensions of a head; supported is all of them"
        )
    return ModelConfig(
        architecture=ARCHITECTURE,
        vocab_size=_embedding_rows(path, header),
        hidden_size=hidden_size,
        intermediate_size=meta.integer("llama.feed_forward_length"),
        num_layers=meta.integer("llama.block_count"),
        num_heads=num_heads,
        num_kv_heads=meta.integer("llama.attention.head_count_kv", num_heads),
        head_dim=head_dim,
        context_length=meta.integer("llama.context_length"),
        rope_theta=meta.number("llama.rope.freq_base", 10_000.0),
        rms_norm_eps=meta.number("llama.attention.layer_norm_rms_epsilon", 1e-5),
        tied_embeddings="output.weight" not in header.tensors,
        eos_token_ids=_end_of_generation(meta),
    )


def _refuse_unsupported(path: Path, header: GgufHeader) -> None:
    scaling = header.metadata.get("llama.rope.scaling.type", "none")
    if scaling != "none" or "rope_freqs.weight" in header.tensors:
        raise UnsupportedModelError(path, "uses RoPE scaling, which is not supported yet")
    if any(name.endswith(".bias") for name in header.tensors):
        raise UnsupportedModelError(path, "has bias tensors, which are not supported yet")
    if "llama.expert_count" in header.metadata:
        raise UnsupportedModelError(path, "is a mixture of experts, which is not supported yet")


def _embedding_rows(path: Path, header: GgufHeader) -> int:
    entry = header.tensors.get("token_embd.weight")
    if entry is None or len(entry.shape) != 2:
        raise CorruptCheckpointError(path, "has no token_embd.weight matrix")
    return entry.shape[0]


def _end_of_generation(meta: _Metadata) -> tuple[int, ...]:
    tokens = meta.listing("tokenizer.ggml.tokens")
    kinds = meta.listing("tokenizer.ggml.token_type")
    named = {
        index
        for index, (token, kind) in enumerate(zip(tokens, kinds, strict=False))
        if kind == _CONTROL_TOKEN and token in END_OF_GENERATION
    }
    eos = meta.integer("tokenizer.ggml.eos_token_id", -1)
    return tuple(sorted(named | ({eos} if eos >= 0 else set())))
