"""The simulated side: every latency, by hand where it can be."""

from __future__ import annotations

import pytest

from bench.validation.case import CASES, requests
from bench.validation.one_engine import simulate
from e2e.load import options
from paceline_operator.simulator.engine_config import EngineConfig
from paceline_operator.simulator.law import StepLaw
from paceline_operator.simulator.profiles import find_profile
from paceline_operator.simulator.request import Request

CONFIG = EngineConfig(
    law=StepLaw(base_ms=10.0, per_prefill_token_ms=1.0, per_decode_row_ms=2.0),
    num_kv_blocks=100,
    max_model_len=512,
    max_num_batched_tokens=64,
    max_num_seqs=4,
    initial_batched_tokens=64,
    initial_running_seqs=4,
)


def test_one_request_takes_what_its_steps_take() -> None:
    kept = simulate([Request(0.0, 50, 4)], CONFIG)
    assert kept.ttft_ms == [pytest.approx(60.0)]
    assert kept.gaps_ms == [pytest.approx(12.0)] * 3


def test_gaps_beside_a_prompt_are_as_long_as_its_step() -> None:
    kept = simulate([Request(0.0, 10, 8), Request(0.021, 40, 1)], CONFIG)
    assert len(kept.gaps_ms) == 7
    assert max(kept.gaps_ms) == pytest.approx(10.0 + 40.0 + 2.0)


def test_a_request_that_is_turned_away_is_an_error() -> None:
    with pytest.raises(ValueError, match="turned request 0 away"):
        simulate([Request(0.0, 600, 4)], CONFIG)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_is_a_load_that_its_engine_serves(case) -> None:
    where = ["--url", "u", "--model", "m"]
    plan, _, _ = options.read([*where, *case.load_flags()])
    planned = [Request(r.offset_s, r.prompt_tokens, r.max_tokens) for r in plan.requests]
    profile = find_profile(case.profile or "smollm2-135m-cpu2")
    kept = simulate(planned, case.engine_config(profile))
    assert len(kept.ttft_ms) == len(planned)
    assert len(kept.gaps_ms) == sum(r.output_tokens - 1 for r in planned)


def test_a_record_becomes_a_request_that_came_when_it_was_sent() -> None:
    assert requests([], 5.0) == []
