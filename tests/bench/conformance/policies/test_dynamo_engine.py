"""Latencies and the rate at the targets, worked out by hand for a law of 10 ms + 0.05 + 0.0001."""

from __future__ import annotations

import pytest

from bench.conformance.policies.dynamo_engine import (
    Capabilities,
    DynamoEngine,
    EngineModel,
    Latencies,
    Shape,
    capabilities,
    shape_of,
)
from bench.conformance.policies.step_regression import StepLine
from paceline_operator.autopilot.vocabulary.window import Counter
from tests.bench.conformance.policies.observed import fleet, learned, pod, step_s, window

MODEL = EngineModel(line=StepLine(0.010, 5e-5, 1e-7), prefill_mean=100.0, row_kv_mean=500.0)
LOOSE = Latencies(ttft_ms=1e6, itl_ms=1e6)
EVEN = Shape(prompt=100.0, answer=100.0)
"""Batch x: x prompt tokens and 150 x KV tokens a step, 10 ms + 0.065 ms x."""


@pytest.mark.parametrize(
    ("queued", "hit_rate", "expected_ms"),
    [
        (0.0, 0.0, 36.0),  # 500 tokens in one step of 10 + 25 + 1
        (1000.0, 0.0, 108.0),  # 512, 512 and 476: 36.6 + 36.6 + 34.8
        (1000.0, 0.5, 59.5),  # 750: 36.6 + 22.9
        (1000.0, 1.0, 0.0),
    ],
)
def test_first_token(queued: float, hit_rate: float, expected_ms: float) -> None:
    shape = Shape(prompt=500.0, hit_rate=hit_rate)
    assert MODEL.ttft_ms(queued, 10_000.0, 512, shape) == pytest.approx(expected_ms)


def test_gap_of_one_sequence_more() -> None:
    assert MODEL.itl_ms(10_000.0) == pytest.approx(16.05)  # 10 + 5 + 1.05


@pytest.mark.parametrize(
    ("engine", "targets", "batch"),
    [
        (Capabilities(budget=512, running_seqs=64), LOOSE, 64),
        (Capabilities(budget=512, running_seqs=64, kv_tokens=1500), LOOSE, 10),
        (Capabilities(budget=21, running_seqs=64), LOOSE, 10),  # 21 x 100 / 200
        (
            Capabilities(budget=512, running_seqs=64),
            Latencies(ttft_ms=1e6, itl_ms=12.0),  # 10 + 0.065 x <= 12
            30,
        ),
        (
            Capabilities(budget=512, running_seqs=64),
            Latencies(ttft_ms=16.0, itl_ms=1e6),  # 10 + 0.05 (100 + x) + 0.015 x <= 16
            15,
        ),
        (Capabilities(budget=512, running_seqs=64), Latencies(ttft_ms=1.0, itl_ms=1.0), 1),
    ],
)
def test_rate_at_the_targets(engine: Capabilities, targets: Latencies, batch: int) -> None:
    expected = batch / (100.0 * (0.010 + 6.5e-5 * batch))
    assert MODEL.best_rps(EVEN, engine, targets) == pytest.approx(expected)


def test_prefix_hits_make_prompts_cheaper_but_no_smaller() -> None:
    engine = Capabilities(budget=512, running_seqs=64)
    hit = Shape(prompt=100.0, answer=100.0, hit_rate=0.5)
    expected = 64 / (100.0 * (0.010 + 64 * (0.5 * 5e-5 + 150e-7)))
    assert MODEL.best_rps(hit, engine, LOOSE) == pytest.approx(expected)


def test_without_requests_there_is_no_rate() -> None:
    engine = Capabilities(budget=512, running_seqs=64)
    assert MODEL.best_rps(Shape(prompt=0.0, answer=100.0), engine, LOOSE) == 0.0
    assert MODEL.best_rps(Shape(prompt=100.0), engine, LOOSE) == 0.0


def test_a_new_one_knows_nothing() -> None:
    assert DynamoEngine().model is None


def test_it_learns_from_every_slice_once() -> None:
    engine = DynamoEngine()
    seen = fleet(2, slices=learned())
    engine.observe(seen)
    engine.observe(seen)
    model = engine.model
    assert model is not None
    assert model.line.seconds(1000.0, 2e4) == pytest.approx(step_s(1000.0, 2e4))
    assert model.prefill_mean == pytest.approx(150.0)  # half of the steps carry 300
    assert model.row_kv_mean == pytest.approx(700.0)  # 7000 on 10 rows


def test_zero_traffic_is_a_prompt_of_nothing() -> None:
    assert shape_of(window()) == Shape(prompt=0.0)
    counters = {
        Counter.REQUESTS_RECEIVED: 4.0,
        Counter.PROMPT_TOKENS_RECEIVED: 1000.0,
        Counter.PREFIX_QUERIES_TOKENS: 800.0,
        Counter.PREFIX_HITS_TOKENS: 200.0,
    }
    expected = Shape(prompt=250.0, answer=7.0, hit_rate=0.25)
    assert shape_of(window(counters=counters), 7.0) == expected


def test_engines_are_as_capable_as_the_weakest() -> None:
    pods = (pod(1, kv_capacity_tokens=9000), pod(2, kv_capacity_tokens=8000), pod(3))
    expected = Capabilities(budget=512, running_seqs=64, kv_tokens=8000)
    assert capabilities(fleet(pods)) == expected
    assert capabilities(fleet((pod(1, tunables=None),))) is None
