"""Bytes and values changed at random: one typed line or a model that loads, nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import tiny_files
from tests.support.loading import attempt

EXAMPLES = settings(max_examples=120, derandomize=True, database=None)

Change = Callable[[bytes], bytes]


@st.composite
def changes(draw: st.DrawFn) -> Change:
    """Cuts, flipped bits, bytes written over, put in, or left out; mostly near the start."""
    share = draw(st.floats(0, 1)) ** draw(st.sampled_from((1, 3)))
    kind = draw(st.sampled_from(("cut", "flip", "write", "insert", "drop", "grow")))
    bit = draw(st.integers(0, 7))
    content = draw(
        st.one_of(
            st.binary(min_size=1, max_size=16),
            st.sampled_from((b"\xff" * 8, bytes(8), b"\x7f" + b"\xff" * 7, b"\x00\x00\xc0\x7f")),
        )
    )

    def change(whole: bytes) -> bytes:
        at = int(share * max(len(whole) - 1, 0))
        match kind:
            case "cut":
                return whole[:at]
            case "flip":
                return whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :]
            case "write":
                return whole[:at] + content + whole[at + len(content) :]
            case "insert":
                return whole[:at] + content + whole[at:]
            case "drop":
                return whole[:at] + whole[at + len(content) :]
            case _:
                return whole + content

    return change


def damaged(whole: bytes, all_changes: list[Change]) -> bytes:
    for change in all_changes:
        whole = change(whole) if whole else whole
    return whole


SEVERAL = st.lists(changes(), min_size=1, max_size=3)


@pytest.mark.behaviour(
    "a damaged or truncated GGUF file gives one line or loads; no traceback, hang or allocation",
    report="corrupt model files: crash, endless load or out of memory while parsing",
)
@pytest.mark.timeout(180)
@EXAMPLES
@given(all_changes=SEVERAL)
def test_a_damaged_gguf_file(
    tmp_path_factory: pytest.TempPathFactory, whole_gguf: bytes, all_changes: list[Change]
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.gguf"
    path.write_bytes(damaged(whole_gguf, all_changes))
    attempt(path)


@pytest.mark.behaviour(
    "each file of a Hugging Face directory, damaged: one line or it loads",
    report="corrupt model files: crash, endless load or out of memory while parsing",
)
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "name",
    [
        "model.safetensors",
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "generation_config.json",
    ],
)
@EXAMPLES
@given(all_changes=SEVERAL)
def test_a_damaged_directory(
    tmp_path_factory: pytest.TempPathFactory,
    whole_directory: Path,
    name: str,
    all_changes: list[Change],
) -> None:
    copy = tmp_path_factory.getbasetemp() / f"damaged-{name}"
    if not copy.exists():
        shutil.copytree(whole_directory, copy)
    (copy / name).write_bytes(damaged((whole_directory / name).read_bytes(), all_changes))
    attempt(copy)


ODD_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 70_000),
    st.sampled_from((0, -1, 2**31, 2**63, 10**30, 10**400, 1e308, float("inf"), float("nan"))),
    st.floats(-10, 1e6),
    st.text(max_size=5),
    st.just([]),
    st.lists(st.floats(0, 5), max_size=3),
    st.dictionaries(st.sampled_from(("rope_type", "factor", "type")), st.text(max_size=8)),
)
ROPE_VALUES = st.fixed_dictionaries(
    {"rope_type": st.sampled_from(("default", "linear", "dynamic", "yarn", "llama3", "longrope"))},
    optional={
        key: st.one_of(ODD_VALUES, st.sampled_from((1.0, 2.0, 8, 64)))
        for key in (
            "factor", "rope_theta", "original_max_position_embeddings", "beta_fast", "beta_slow",
            "low_freq_factor", "high_freq_factor", "attention_factor", "mscale", "mscale_all_dim",
            "short_factor", "long_factor", "truncate", "partial_rotary_factor",
        )
    },
)  # fmt: skip
KEYS = (
    "model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
    "num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings",
    "rope_theta", "rms_norm_eps", "hidden_act", "tie_word_embeddings", "eos_token_id",
    "rope_scaling", "attention_bias", "mlp_bias", "quantization_config", "sliding_window",
    "use_sliding_window", "max_window_layers", "layer_types", "partial_rotary_factor",
)  # fmt: skip


@pytest.mark.behaviour(
    "a config.json of wrong types, missing keys or absurd numbers: one line or it loads",
    report="corrupt model files: a wrong value in config.json ends in a traceback",
)
@pytest.mark.timeout(180)
@settings(EXAMPLES, max_examples=300)
@given(
    odd=st.dictionaries(st.sampled_from(KEYS), ODD_VALUES, max_size=3),
    missing=st.sets(st.sampled_from(KEYS), max_size=1),
    rope=st.one_of(st.none(), ROPE_VALUES),
    model_type=st.sampled_from(("llama", "mistral", "qwen2", "qwen3")),
)
def test_a_configuration_of_odd_values(
    tmp_path_factory: pytest.TempPathFactory,
    whole_directory: Path,
    odd: dict[str, Any],
    missing: set[str],
    rope: dict[str, Any] | None,
    model_type: str,
) -> None:
    copy = tmp_path_factory.getbasetemp() / "odd"
    if not copy.exists():
        shutil.copytree(whole_directory, copy)
    values = tiny_files.SHAPE | {"model_type": model_type, "rope_parameters": rope} | odd
    kept = {key: value for key, value in values.items() if key not in missing}
    (copy / "config.json").write_text(json.dumps(kept))
    attempt(copy)
