"""GGUF files: every storage type, the header, and every way a file can be broken."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from numpy.typing import NDArray

from paceline_engine.weights import (
    CheckpointError,
    CheckpointNotFoundError,
    CorruptCheckpointError,
    UnsupportedModelError,
    open_checkpoint,
    read_model_config,
)
from tests.support import tiny_gguf, tiny_llama
from tests.support.model_file import model_file

WEIGHTS = tiny_llama.tensors(tiny_gguf.SHAPE)


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return tiny_gguf.write(tmp_path / "whole.gguf", WEIGHTS)


# Largest error as a share of the largest weight in a block of 32: half a step.
ERRORS = {
    Kind.F32: 0.0,
    Kind.F16: 2**-11,
    Kind.BF16: 2**-8,
    Kind.Q8_0: 1 / 254 + 1e-3,
    Kind.Q5_0: 1 / 16,
    Kind.Q5_1: 1 / 31 + 1e-3,
    Kind.Q4_0: 1 / 8,
    Kind.Q4_1: 1 / 15 + 1e-3,
}


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.name)
def test_tensors_come_back_as_written(tmp_path: Path, kind: Kind) -> None:
    path = tiny_gguf.write(tmp_path / "m.gguf", WEIGHTS, kind)
    with open_checkpoint(path) as checkpoint:
        for name, expected in WEIGHTS.items():
            actual = checkpoint.tensor(name)
            assert actual.dtype == np.float32
            assert actual.shape == expected.shape
            bound = 0.0 if expected.ndim == 1 else ERRORS[kind] * np.abs(expected).max()
            assert np.abs(actual - expected).max() <= bound, name


def q6_k(block: bytes) -> NDArray[np.float32]:
    """256 weights of one block by the format's definition, one by one."""
    low, high, scales = block[:128], block[128:192], np.frombuffer(block[192:208], np.int8)
    (scale,) = struct.unpack("<e", block[208:210])
    values = np.empty(256, np.float32)
    for index in range(256):
        half, rest = divmod(index, 128)
        quarter, place = divmod(rest, 32)
        nibble = low[half * 64 + (quarter % 2) * 32 + place] >> (4 * (quarter // 2)) & 0xF
        bits = high[half * 32 + place] >> (2 * quarter) & 3
        values[index] = scale * int(scales[index // 16]) * ((nibble | bits << 4) - 32)
    return values


def test_q6_k_follows_its_definition(tmp_path: Path) -> None:
    raw = np.random.default_rng(4).integers(0, 256, (256, 210), dtype=np.uint8)
    raw[:, 208:] = np.frombuffer(struct.pack("<e", 0.01), np.uint8)

    def amend(writer: gguf.GGUFWriter) -> None:
        writer.add_tensor("blk.0.ffn_up.weight", raw, raw_dtype=Kind.Q6_K)

    weights = {name: value for name, value in WEIGHTS.items() if "up_proj" not in name}
    path = tiny_gguf.write(tmp_path / "m.gguf", weights, amend=amend)
    with open_checkpoint(path) as checkpoint:
        actual = checkpoint.tensor("model.layers.0.mlp.up_proj.weight")
    expected = np.stack([q6_k(row.tobytes()) for row in raw])
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_shape_of_the_model(whole: Path) -> None:
    config = read_model_config(whole)
    shape = tiny_gguf.SHAPE
    assert config.vocab_size == shape["vocab_size"]
    assert config.head_dim == shape["head_dim"]
    assert config.num_kv_heads == shape["num_key_value_heads"]
    assert config.context_length == shape["max_position_embeddings"]
    assert config.rope_theta == shape["rope_theta"]
    assert config.rms_norm_eps == pytest.approx(shape["rms_norm_eps"])
    assert config.tied_embeddings


def test_an_output_matrix_means_an_untied_head(tmp_path: Path) -> None:
    weights = WEIGHTS | {"lm_head.weight": WEIGHTS["model.embed_tokens.weight"] * 2}
    path = tiny_gguf.write(tmp_path / "m.gguf", weights)
    assert not read_model_config(path).tied_embeddings


@pytest.mark.model
def test_smollm2_shape_and_tensors_equal_the_reference_reader() -> None:
    path = model_file()
    reader = gguf.GGUFReader(path)
    embedding = next(t for t in reader.tensors if t.name == "token_embd.weight")
    with open_checkpoint(path) as checkpoint:
        config = checkpoint.config
        actual = checkpoint.tensor("model.embed_tokens.weight")
    assert (config.num_layers, config.num_heads, config.num_kv_heads) == (30, 9, 3)
    assert (config.rope_theta, config.context_length) == (100_000.0, 8_192)
    expected = gguf.dequantize(embedding.data[:64], embedding.tensor_type)
    assert np.array_equal(actual[:64], expected)


def test_every_cut_is_one_line_that_names_the_file(whole: Path, tmp_path: Path) -> None:
    content = whole.read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in (0, 3, 4, 10, 24, 40, 300, 700, len(content) // 2, len(content) - 33):
        cut.write_bytes(content[:length])
        with pytest.raises(CorruptCheckpointError) as raised:
            read_model_config(cut)
        text = str(raised.value)
        assert str(cut) in text
        assert "\n" not in text


def test_noise_in_the_header_never_escapes(whole: Path, tmp_path: Path) -> None:
    """Whatever bytes stand there: either it still reads, or it is one clear line."""
    content, broken = whole.read_bytes(), tmp_path / "broken.gguf"
    draw = np.random.default_rng(2)
    refusals = []
    for _ in range(300):
        noisy = bytearray(content)
        at = int(draw.integers(4, 1_400))
        noisy[at : at + 4] = draw.integers(0, 256, 4, dtype=np.uint8).tobytes()
        broken.write_bytes(noisy)
        try:
            read_model_config(broken)
        except CheckpointError as error:
            refusals.append(str(error))
    assert len(refusals) > 50
    assert [text for text in refusals if "\n" in text] == []


def test_endless_nesting_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "nested.gguf"
    array_of_one_array = struct.pack("<IQ", 9, 1)
    path.write_bytes(
        struct.pack("<4sIQQQ1sI", b"GGUF", 3, 0, 1, 1, b"k", 9) + array_of_one_array * 50_000
    )
    with pytest.raises(CorruptCheckpointError, match="damaged") as raised:
        read_model_config(path)
    assert "\n" not in str(raised.value)


def _add_tensor(name: str) -> Callable[[gguf.GGUFWriter], None]:
    return lambda writer: writer.add_tensor(name, np.zeros(256, np.float32))


UNSUPPORTED: dict[str, tuple[Callable[[gguf.GGUFWriter], None], str]] = {
    "a tensor of no use": (_add_tensor("blk.0.attn_sinks.weight"), "has tensor blk.0.attn_sinks"),
    "norm of heads": (_add_tensor("blk.0.attn_q_norm.weight"), "has tensor blk.0.attn_q_norm"),
    "RoPE scaling": (
        lambda writer: writer.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE),
        "longrope RoPE scaling",
    ),
    "strength of yarn": (
        lambda writer: writer.add_rope_scaling_yarn_attn_factor(1.2),
        "yarn_attn_factor 1.2",
    ),
    "partial RoPE": (lambda writer: writer.add_rope_dimension_count(32), "rotates 32 of 64"),
    "other values": (lambda writer: writer.add_value_length(32), "values of another width"),
    "experts": (lambda writer: writer.add_expert_count(4), "expert_count 4"),
    "another shape in each layer": (
        lambda writer: writer.add_array("llama.attention.layer_indices", [1, 2]),
        "layer_indices for each layer",
    ),
    "one of several files": (lambda writer: writer.add_uint16("split.count", 3), "one of 3 parts"),
}


@pytest.mark.parametrize(("amend", "text"), UNSUPPORTED.values(), ids=UNSUPPORTED.keys())
def test_what_would_be_computed_wrongly_is_refused(
    tmp_path: Path, amend: Callable[[gguf.GGUFWriter], None], text: str
) -> None:
    path = tiny_gguf.write(tmp_path / "m.gguf", WEIGHTS, amend=amend)
    with pytest.raises(UnsupportedModelError, match=text):
        read_model_config(path)


def test_angles_of_old_conversions_are_passed_over(tmp_path: Path) -> None:
    amend = _add_tensor("blk.0.attn_rot_embd.weight")
    path = tiny_gguf.write(tmp_path / "m.gguf", WEIGHTS, amend=amend)
    assert read_model_config(path).num_layers == 1


def test_one_bias_of_three_is_too_few(tmp_path: Path) -> None:
    path = tiny_gguf.write(tmp_path / "m.gguf", WEIGHTS, amend=_add_tensor("blk.0.attn_q.bias"))
    with pytest.raises(CorruptCheckpointError, match=r"no tensor blk\.0\.attn_k\.bias"):
        read_model_config(path)


def test_big_endian_files_are_named(whole: Path) -> None:
    content = bytearray(whole.read_bytes())
    content[4:8] = struct.pack(">I", 3)
    whole.write_bytes(content)
    with pytest.raises(UnsupportedModelError, match="big endian"):
        read_model_config(whole)


def test_a_model_without_heads_is_one_line(whole: Path) -> None:
    content = bytearray(whole.read_bytes())
    key = b"llama.attention.head_count"
    at = content.index(key) + len(key) + 4  # past the value's type
    content[at : at + 4] = bytes(4)
    whole.write_bytes(content)
    with pytest.raises(CorruptCheckpointError, match="states num_heads as 0"):
        read_model_config(whole)


def test_another_architecture_is_named(tmp_path: Path) -> None:
    path = tiny_gguf.write(tmp_path / "m.gguf", WEIGHTS, architecture="gemma")
    with pytest.raises(UnsupportedModelError, match="'gemma'; supported is one of 'llama'"):
        read_model_config(path)


def test_a_missing_matrix_is_named(tmp_path: Path) -> None:
    weights = {name: value for name, value in WEIGHTS.items() if "k_proj" not in name}
    path = tiny_gguf.write(tmp_path / "m.gguf", weights)
    with pytest.raises(CorruptCheckpointError, match=r"no tensor blk\.0\.attn_k\.weight"):
        open_checkpoint(path)


def test_no_file_and_another_kind_of_file(tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFoundError, match="does not exist"):
        read_model_config(tmp_path / "none.gguf")
    (tmp_path / "zip.gguf").write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(CorruptCheckpointError, match="not a GGUF file"):
        read_model_config(tmp_path / "zip.gguf")
