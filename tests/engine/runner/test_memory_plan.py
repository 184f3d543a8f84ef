"""Sizing of the KV pool: arithmetic by table, invariants by property."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_engine.runner.memory_plan import (
    DEFAULT_KV_BYTES,
    MIB,
    RUNTIME_BYTES,
    SLACK_RATIO,
    InsufficientMemoryError,
    MemoryPlan,
    blocks_in,
    plan_memory,
)
from paceline_engine.weights import ModelConfig

MODEL = ModelConfig(
    architecture="llama",
    vocab_size=49_152,
    hidden_size=576,
    intermediate_size=1_536,
    num_layers=30,
    num_heads=9,
    num_kv_heads=3,
    head_dim=64,
    context_length=8_192,
    rope_theta=100_000.0,
    rms_norm_eps=1e-5,
    tied_embeddings=True,
    eos_token_ids=(2,),
)


def plan(available_mib: int, **changes: int | bool | None) -> MemoryPlan:
    arguments: dict[str, int | bool | None] = {
        "max_model_len": 2_048,
        "max_num_batched_tokens": 256,
        "max_num_seqs": 16,
        "block_size": 16,
    }
    return plan_memory(MODEL, available_bytes=available_mib * MIB, **(arguments | changes))  # type: ignore[arg-type]  # a table of mixed kinds


def test_sizes_of_the_model() -> None:
    assert MODEL.num_parameters == 134_515_008
    assert MODEL.kv_bytes_per_token == 46_080
    assert MODEL.resident_weight_bytes == (134_515_008 + 49_152 * 576) * 4
    assert blocks_in(10 * 46_080 * 16 + 5, MODEL, 16) == 10


@pytest.mark.parametrize(
    ("available_mib", "changes", "blocks"),
    [
        (100_000, {}, 16 * 128),  # all that 16 requests can use
        (100_000, {"max_num_seqs": 256}, DEFAULT_KV_BYTES // (46_080 * 16)),
        (100_000, {"num_kv_blocks": 9_000}, 9_000),
        (100_000, {"max_model_len": 131_072, "max_num_seqs": 9}, 8_192),  # one longest request
        (1_500, {"num_kv_blocks": 128}, 128),
    ],
)
def test_pool_size(available_mib: int, changes: dict[str, int], blocks: int) -> None:
    assert plan(available_mib, **changes).num_kv_blocks == blocks


def test_what_is_loaded_already_is_not_asked_for_again() -> None:
    before = plan(2_000, num_kv_blocks=128)
    after = plan(2_000, num_kv_blocks=128, is_runtime_loaded=True)
    assert before.total_bytes - after.total_bytes == RUNTIME_BYTES


def test_refusal_is_one_line_with_the_sum() -> None:
    with pytest.raises(InsufficientMemoryError) as refused:
        plan(1_000)
    text = str(refused.value)
    assert "\n" not in text
    assert text.startswith("too little memory: needed runtime 620 + weights 622 + activations ")
    assert "KV 90 (128 blocks of 720 KiB) = " in text
    assert "available 1000 MiB" in text
    assert "--max-model-len" in text


def test_a_wanted_pool_smaller_than_one_request_is_taken_as_it_is() -> None:
    assert plan(1_500, num_kv_blocks=5).num_kv_blocks == 5


@given(
    available=st.integers(0, 40_000),
    length=st.integers(1, 8_192),
    budget=st.integers(16, 4_096),
    seqs=st.integers(1, 256),
    block=st.sampled_from([8, 16, 32, 128]),
)
def test_a_plan_fits_and_holds_one_request(
    available: int, length: int, budget: int, seqs: int, block: int
) -> None:
    sizes = {"max_model_len": length, "max_num_batched_tokens": budget, "max_num_seqs": seqs}
    try:
        made = plan(available, **sizes, block_size=block)
    except InsufficientMemoryError:
        return
    assert made.total_bytes <= available * MIB * (1 - SLACK_RATIO) + 1
    assert made.num_kv_blocks * block >= length
    assert made.num_kv_blocks * block < (length + block) * seqs
    assert plan(available + 1, **sizes, block_size=block).num_kv_blocks >= made.num_kv_blocks
