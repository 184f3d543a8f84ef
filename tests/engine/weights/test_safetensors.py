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
    "another family": ({"model_type": "gemma"}, "'gemma'; supported is one of 'llama'"),
    "RoPE scaling": ({"rope_scaling": {"rope_type": "spiral"}}, "spiral RoPE scaling"),
    "partial RoPE": ({"partial_rotary_factor": 0.5}, "rotates 0.5 of a head"),
    "RoPE by layer": (
        {"rope_parameters": {"full_attention": {"rope_theta": 1e4}}},
        "for each kind of layer",
    ),
    "multimodal RoPE": (
        {"rope_scaling": {"type": "default", "mrope_section": [1, 2]}},
        "multimodal RoPE",
    ),
    "layers of another kind": (
        {"model_type": "mistral", "sliding_window": 4, "layer_types": ["linear", "linear"]},
        "layer_types other than",
    ),
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
    weights = as_torch(torch.float32)
    save_file(weights | {NAME: weights[NAME].to(torch.int8)}, model / "model.safetensors")
    with (
        open_checkpoint(model) as checkpoint,
        pytest.raises(UnsupportedModelError, match="quantised weights"),
    ):
        checkpoint.tensor(NAME)


def test_a_tensor_of_no_use_is_named(model: Path) -> None:
    """A bias that would be left out changes every answer."""
    bias = {"model.layers.0.self_attn.q_proj.bias": torch.zeros(96)}
    save_file(as_torch(torch.float32) | bias, model / "model.safetensors")
    with pytest.raises(UnsupportedModelError, match=r"q_proj\.bias, which a llama of this"):
        read_model_config(model)


def test_buffers_of_older_exports_are_passed_over(model: Path) -> None:
    buffer = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.zeros(8)}
    save_file(as_torch(torch.float32) | buffer, model / "model.safetensors")
    assert read_model_config(model).num_layers == 2


def test_double_precision_is_narrowed(model: Path) -> None:
    save_file(as_torch(torch.float64), model / "model.safetensors")
    with open_checkpoint(model) as checkpoint:
        assert np.array_equal(checkpoint.tensor(NAME), tiny_llama.tensors(tiny_llama.SHAPE)[NAME])


def test_the_whole_file_comes_before_an_index(model: Path) -> None:
    """As in transformers."""
    (model / "model.safetensors.index.json").write_text('{"weight_map": {"x": "gone"}}')
    assert read_model_config(model).num_layers == 2


@pytest.mark.parametrize(
    "place", ["../other.safetensors", "/etc/passwd", "a/b.safetensors", "..", "", 5]
)
def test_an_index_may_not_point_outside(model: Path, place: object) -> None:
    files = {**shard(model), NAME: place}
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    with pytest.raises(CorruptCheckpointError, match="no file name"):
        read_model_config(model)


def test_a_tensor_that_is_not_where_the_index_says_is_named(model: Path) -> None:
    files = shard(model)
    files[NAME] = next(file for file in files.values() if file != files[NAME])
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    with pytest.raises(CorruptCheckpointError, match="the index puts there"):
        read_model_config(model)


def test_another_format_is_named(model: Path) -> None:
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    with pytest.raises(UnsupportedModelError, match=r"pytorch_model\.bin and no model\.saf"):
        read_model_config(model)


def test_reading_a_shape_loads_no_torch(model: Path) -> None:
    program = (
        "import sys; from paceline_engine.weights import read_model_config; "
        "from paceline_engine.runner import memory_limit, memory_plan; "
        f"read_model_config({str(model)!r}); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
