"""Sizing of the KV pool: arithmetic by table, invariants by property."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_engine.memory import MIB, SLACK_RATIO, MemoryPlan
from paceline_engine.runner.logprobs import SLICE_ROWS
from paceline_engine.runner.memory_plan import (
    DEFAULT_KV_BYTES,
    RUNTIME_BYTES,
    SCORED_ROWS,
    blocks_in,
    loading_bytes,
    logits_bytes,
    plan_memory,
)
from paceline_engine.runner.memory_room import (
    QUEUED_TOKEN_BYTES,
    InsufficientMemoryError,
    plan_simulated,
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
    runtime = RUNTIME_BYTES // MIB
    assert text.startswith(f"too little memory: needed runtime {runtime} + weights 622 + activ")
    assert "KV 90 (128 blocks of 720 KiB) = " in text
    assert "usable 1000 MiB, of which 5% stay free; " in text


def test_a_wanted_pool_smaller_than_one_request_is_taken_as_it_is() -> None:
    assert plan(1_500, num_kv_blocks=5).num_kv_blocks == 5


def test_every_ceiling_has_its_part() -> None:
    base = plan(100_000)
    changes: dict[str, tuple[dict[str, int], set[str]]] = {
        "budget": ({"max_num_batched_tokens": 512}, {"activations"}),
        "sequences": ({"max_num_seqs": 32, "num_kv_blocks": base.num_kv_blocks}, {"logits"}),
        "length": ({"max_model_len": 4096, "num_kv_blocks": base.num_kv_blocks}, {"buffers"}),
        "queue": ({"max_queued_tokens": 1000}, {"queue"}),
        "server": ({"server_bytes": 5}, {"server"}),
        "pool": ({"num_kv_blocks": base.num_kv_blocks + 1}, {"kvCache", "buffers"}),
    }
    for name, (change, parts) in changes.items():
        made = plan(100_000, **change)
        larger = {part for part, size in made.parts.items() if size > base.parts[part]}
        assert larger == parts, name
        assert all(made.parts[part] >= size for part, size in base.parts.items())
    assert plan(100_000, max_queued_tokens=1000).queue_bytes == 1000 * QUEUED_TOKEN_BYTES


def test_rows_of_log_probabilities_are_those_of_the_sampler() -> None:
    assert SCORED_ROWS == 3 * SLICE_ROWS
    row = MODEL.vocab_size * 4
    assert logits_bytes(MODEL, 16) >= (16 + 3 * SLICE_ROWS) * row


def test_loading_counts_where_it_needs_more_than_a_step() -> None:
    wide = replace(MODEL, intermediate_size=400_000, num_layers=1)
    sizes = {"max_model_len": 16, "max_num_batched_tokens": 16, "max_num_seqs": 1}
    made = plan_memory(wide, available_bytes=1 << 40, block_size=16, **sizes)
    later = made.activation_bytes + made.logits_bytes + made.kv_bytes
    assert loading_bytes(wide) > later
    assert made.buffer_bytes >= loading_bytes(wide) - later
    large_pool = plan_memory(
        wide, available_bytes=1 << 40, block_size=16, num_kv_blocks=200_000, **sizes
    )
    assert large_pool.buffer_bytes < loading_bytes(wide) - later


def test_a_simulated_engine_holds_neither_weights_nor_blocks() -> None:
    made = plan_simulated(
        available_bytes=1 << 30, num_kv_blocks=5000, queue_bytes=10, server_bytes=7
    )
    assert made.weight_bytes == made.kv_bytes == 0
    assert made.num_kv_blocks == 5000
    with pytest.raises(InsufficientMemoryError, match=r"give \d+ MiB more$"):
        plan_simulated(available_bytes=1 << 20, num_kv_blocks=5, queue_bytes=10, server_bytes=7)


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
