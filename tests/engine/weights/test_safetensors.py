"""Hugging Face directories: types, shards, and every way one can be incomplete."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from paceline_engine.weights import (
    CheckpointError,
    CheckpointNotFoundError,
    CorruptCheckpointError,
    UnsupportedModelError,
    open_checkpoint,
    read_model_config,
)
from tests.support import tiny_llama

NAME = "model.layers.1.mlp.up_proj.weight"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_llama.write(tmp_path / "model")


def test_tensors_come_back_as_written(model: Path) -> None:
    with open_checkpoint(model) as checkpoint:
        for name, expected in tiny_llama.tensors(tiny_llama.SHAPE).items():
            assert np.array_equal(checkpoint.tensor(name), expected)


def as_torch(dtype: torch.dtype) -> dict[str, torch.Tensor]:
    weights = tiny_llama.tensors(tiny_llama.SHAPE)
    return {name: torch.from_numpy(value).to(dtype) for name, value in weights.items()}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_is_widened_exactly(model: Path, dtype: torch.dtype) -> None:
    weights = as_torch(dtype)
    save_file(weights, model / "model.safetensors")
    with open_checkpoint(model) as checkpoint:
        actual = checkpoint.tensor(NAME)
    assert actual.dtype == np.float32
    assert np.array_equal(actual, weights[NAME].float().numpy())


def shard(model: Path) -> dict[str, str]:
    """Moves the last layer to a second file; returns the index's map."""
    weights = as_torch(torch.float32)
    files = {name: f"model-0000{1 + ('layers.1' in name)}-of-00002.safetensors" for name in weights}
    for file in set(files.values()):
        save_file({n: w for n, w in weights.items() if files[n] == file}, model / file)
    (model / "model.safetensors").unlink()
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    return files


def test_shards_are_found_by_the_index(model: Path) -> None:
    shard(model)
    with open_checkpoint(model) as checkpoint:
        expected = tiny_llama.tensors(tiny_llama.SHAPE)[NAME]
        assert np.array_equal(checkpoint.tensor(NAME), expected)


def test_a_missing_shard_is_named(model: Path) -> None:
    gone = model / shard(model)[NAME]
    gone.unlink()
    with pytest.raises(CheckpointNotFoundError, match=gone.name):
        read_model_config(model)


def test_shape_of_the_model(model: Path) -> None:
    config = read_model_config(model)
    assert (config.head_dim, config.num_heads, config.num_kv_heads) == (16, 6, 2)
    assert config.rope_theta == 5_000.0
    assert not config.tied_embeddings
    assert config.eos_token_ids == (2,)


def test_generation_config_has_the_last_word_on_ends(model: Path) -> None:
    (model / "generation_config.json").write_text(json.dumps({"eos_token_id": [9, 4]}))
    assert read_model_config(model).eos_token_ids == (4, 9)


def test_rope_parameters_of_newer_configurations_are_read(tmp_path: Path) -> None:
    rope = {"rope_theta": 123.0, "rope_type": "default"}
    path = tiny_llama.write(tmp_path, {"rope_parameters": rope})
    assert read_model_config(path).rope_theta == 123.0


@pytest.mark.parametrize("length", [0, 5, 200, 20_000])
def test_a_cut_file_is_one_line(model: Path, length: int) -> None:
    file = model / "model.safetensors"
    file.write_bytes(file.read_bytes()[:length])
    with pytest.raises(CorruptCheckpointError) as raised:
        read_model_config(model)
    assert str(file) in str(raised.value)
    assert "\n" not in str(raised.value)


CONFIGS: dict[str, tuple[dict[str, Any], str]] = {
    "another family": ({"model_type": "gemma"}, "'gemma'; supported is 'llama'"),
    "RoPE scaling": ({"rope_scaling": {"rope_type": "llama3"}}, "llama3 RoPE scaling"),
    "bias": ({"attention_bias": True}, "bias tensors"),
    "activation": ({"hidden_act": "gelu"}, "activation 'gelu'"),
    "quantised": ({"quantization_config": {"quant_method": "gptq"}}, "is quantised"),
}


@pytest.mark.parametrize(("changes", "text"), CONFIGS.values(), ids=CONFIGS.keys())
def test_what_would_be_computed_wrongly_is_refused(
    tmp_path: Path, changes: dict[str, Any], text: str
) -> None:
    with pytest.raises(UnsupportedModelError, match=text):
        read_model_config(tiny_llama.write(tmp_path, changes))


@pytest.mark.parametrize("content", ["", "[]", "{", '{"model_type": "llama"}'])
def test_a_broken_configuration_is_one_line(model: Path, content: str) -> None:
    (model / "config.json").write_text(content)
    with pytest.raises(CheckpointError) as raised:
        read_model_config(model)
    assert "config.json" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_integer_weights_are_refused(model: Path) -> None:
    save_file(as_torch(torch.float32) | {NAME: torch.zeros(2, 2, dtype=torch.int8)},
              model / "model.safetensors")  # fmt: skip
    with (
        open_checkpoint(model) as checkpoint,
        pytest.raises(UnsupportedModelError, match="quantised weights"),
    ):
        checkpoint.tensor(NAME)


def test_reading_a_shape_loads_no_torch(model: Path) -> None:
    program = (
        "import sys; from paceline_engine.weights import read_model_config; "
        "from paceline_engine.runner import memory_limit, memory_plan; "
        f"read_model_config({str(model)!r}); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
