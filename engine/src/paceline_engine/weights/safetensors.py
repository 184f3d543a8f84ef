"""Hugging Face directories: config.json plus model.safetensors, whole or in shards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from paceline_engine.weights.consistency import check_config, check_tensor
from paceline_engine.weights.errors import (
    CheckpointNotFoundError,
    CorruptCheckpointError,
    UnsupportedModelError,
)
from paceline_engine.weights.model_config import ModelConfig

MODEL_TYPE: Final = "llama"
SINGLE_FILE: Final = "model.safetensors"
INDEX_FILE: Final = "model.safetensors.index.json"


def read_directory_config(path: Path) -> ModelConfig:
    """Reads the model's shape and checks that each weight file is there and whole."""
    config = _model_config(path)
    for shard in sorted(set(_tensor_files(path).values())):
        _open_shard(shard, framework="np")
    return config


class SafetensorsCheckpoint:
    """A directory of mapped safetensors files.

    Raises:
        CheckpointError: When built: files missing, damaged, or not a Llama-like model.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.config = _model_config(path)
        self._files = _tensor_files(path)
        # The torch form is the one that knows bfloat16; tensors are views of the map.
        self._shards: dict[Path, Any] = {
            shard: _open_shard(shard, framework="pt") for shard in set(self._files.values())
        }

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Reads one tensor as fp32; see `Checkpoint.tensor`."""
        shard = self._files.get(name)
        if shard is None:
            raise CorruptCheckpointError(self._path, f"has no tensor {name}")
        try:
            values = self._shards[shard].get_tensor(name)
        except SafetensorError as error:
            raise CorruptCheckpointError(shard, f"has no usable tensor {name}: {error}") from error
        if not values.is_floating_point():
            raise UnsupportedModelError(
                shard, f"stores {name} as {values.dtype}; quantised weights are not supported yet"
            )
        check_tensor(shard, self.config, name, tuple(values.shape))
        array: NDArray[np.float32] = values.float().numpy()
        return array

    def close(self) -> None:
        """Lets go of the maps; safe to call twice."""
        self._shards.clear()

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Lets go of the maps."""
        self.close()


def _open_shard(path: Path, *, framework: str) -> Any:
    if not path.is_file():
        raise CheckpointNotFoundError(path, "does not exist; download the model again")
    try:
        return safe_open(path, framework=framework)
    except (SafetensorError, OSError) as error:
        raise CorruptCheckpointError(
            path, f"is damaged or truncated ({error}); download it again"
        ) from error


def _tensor_files(path: Path) -> dict[str, Path]:
    index = path / INDEX_FILE
    if index.is_file():
        weight_map = _read_json(index).get("weight_map")
        if not isinstance(weight_map, dict):
            raise CorruptCheckpointError(index, "has no weight_map")
        return {name: path / file for name, file in weight_map.items()}
    single = _open_shard(path / SINGLE_FILE, framework="np")
    return dict.fromkeys(single.keys(), path / SINGLE_FILE)


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise CheckpointNotFoundError(path, "does not exist; give a GGUF file or a full directory")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CorruptCheckpointError(path, f"is not readable JSON: {error}") from error
    if not isinstance(content, dict):
        raise CorruptCheckpointError(path, "is not a JSON object")
    return content


def _model_config(path: Path) -> ModelConfig:
    file = path / "config.json"
    raw = _read_json(file)
    if raw.get("model_type") != MODEL_TYPE:
        raise UnsupportedModelError(
            file, f"has model_type {raw.get('model_type')!r}; supported is {MODEL_TYPE!r}"
        )
    _refuse_unsupported(file, raw)
    try:
        return check_config(file, _llama_config(path, raw))
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise CorruptCheckpointError(file, f"lacks or misstates {error}") from error


def _llama_config(path: Path, raw: Mapping[str, Any]) -> ModelConfig:
    num_heads, hidden_size = int(raw["num_attention_heads"]), int(raw["hidden_size"])
    return ModelConfig(
        architecture=MODEL_TYPE,
        vocab_size=int(raw["vocab_size"]),
        hidden_size=hidden_size,
        intermediate_size=int(raw["intermediate_size"]),
        num_layers=int(raw["num_hidden_layers"]),
        num_heads=num_heads,
        num_kv_heads=int(raw.get("num_key_value_heads") or num_heads),
        head_dim=int(raw.get("head_dim") or hidden_size // num_heads),
        context_length=int(raw["max_position_embeddings"]),
        rope_theta=float(_rope(raw).get("rope_theta") or raw.get("rope_theta") or 10_000.0),
        rms_norm_eps=float(raw.get("rms_norm_eps", 1e-6)),
        tied_embeddings=bool(raw.get("tie_word_embeddings", False)),
        eos_token_ids=_end_of_generation(path, raw),
    )


def _rope(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    return raw.get("rope_parameters") or raw.get("rope_scaling") or {}


def _refuse_unsupported(file: Path, raw: Mapping[str, Any]) -> None:
    kind = _rope(raw).get("rope_type") or _rope(raw).get("type") or "default"
    if kind != "default":
        raise UnsupportedModelError(file, f"uses {kind} RoPE scaling, which is not supported yet")
    if raw.get("attention_bias") or raw.get("mlp_bias"):
        raise UnsupportedModelError(file, "has bias tensors, which are not supported yet")
    if raw.get("hidden_act", "silu") != "silu":
        raise UnsupportedModelError(file, f"uses activation {raw['hidden_act']!r}, not 'silu'")
    if raw.get("quantization_config"):
        raise UnsupportedModelError(file, "is quantised, which is not supported yet")


def _end_of_generation(path: Path, raw: Mapping[str, Any]) -> tuple[int, ...]:
    generation = path / "generation_config.json"
    source = _read_json(generation) if generation.is_file() else raw
    eos = source.get("eos_token_id", raw.get("eos_token_id"))
    if eos is None:
        return ()
    return tuple(sorted({int(token) for token in (eos if isinstance(eos, list) else [eos])}))
