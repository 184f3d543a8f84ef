"""Sizes that cannot belong to a model, and tensors of another shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline_engine.weights import CorruptCheckpointError, open_checkpoint, read_model_config
from paceline_engine.weights.gguf_names import gguf_name
from tests.support import tiny_gguf, tiny_llama


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"num_attention_heads": 0, "head_dim": None}, "config.json"),
        ({"num_hidden_layers": 0}, "states num_layers as 0"),
        ({"vocab_size": -5}, "states vocab_size as -5"),
        ({"num_key_value_heads": 4}, "6 heads, no multiple of 4"),
        ({"head_dim": 7}, "odd width 7"),
    ],
)
def test_impossible_sizes_are_one_line(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    weights = tiny_llama.tensors(tiny_llama.SHAPE)
    with pytest.raises(CorruptCheckpointError, match=text) as raised:
        read_model_config(tiny_llama.write(tmp_path, changes, weights))
    assert "\n" not in str(raised.value)


WRONG = {
    "model.embed_tokens.weight": (40, 512),
    "model.norm.weight": (512,),
    "model.layers.0.self_attn.q_proj.weight": (512, 256),
    "model.layers.0.self_attn.v_proj.weight": (256, 256),
    "model.layers.0.self_attn.o_proj.weight": (256, 512),
    "model.layers.0.mlp.down_proj.weight": (512, 256),
}


@pytest.mark.parametrize("form", ["gguf", "safetensors"])
@pytest.mark.parametrize(("name", "shape"), WRONG.items(), ids=WRONG.keys())
def test_a_tensor_of_another_shape_is_named(
    tmp_path: Path, name: str, shape: tuple[int, ...], form: str
) -> None:
    weights = tiny_llama.tensors(tiny_gguf.SHAPE) | {name: np.zeros(shape, np.float32)}
    path = (
        tiny_gguf.write(tmp_path / "m.gguf", weights)
        if form == "gguf"
        else tiny_llama.write(tmp_path / "m", tiny_gguf.SHAPE, weights)
    )
    with pytest.raises(CorruptCheckpointError) as raised:
        read_model_config(path)
    stored = name if form == "safetensors" else gguf_name(name)
    assert f"tensor {stored} of shape {list(shape)} where " in str(raised.value)


@pytest.mark.parametrize("form", ["gguf", "safetensors"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused_with_their_tensor(
    tmp_path: Path, value: float, form: str
) -> None:
    name = "model.layers.0.mlp.up_proj.weight"
    weights = tiny_llama.tensors(tiny_gguf.SHAPE)
    weights[name][3, 5] = value
    path = (
        tiny_gguf.write(tmp_path / "m.gguf", weights)
        if form == "gguf"
        else tiny_llama.write(tmp_path / "m", tiny_gguf.SHAPE, weights)
    )
    with open_checkpoint(path) as checkpoint, pytest.raises(CorruptCheckpointError) as raised:
        checkpoint.tensor(name)
    assert "not finite" in str(raised.value)
