"""A meter on a simulated engine: what it adds up over steps is what each request says of itself."""

from __future__ import annotations

import random
from math import inf

import pytest

from paceline_operator.api.v1alpha1 import SloMetric, Tier
from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.autopilot.vocabulary.window import (
    Counter,
    Latency,
    SloCounts,
    Window,
    merge,
    slo_key,
)
from paceline_operator.simulator.engine import Engine
from paceline_operator.simulator.engine_config import EngineConfig
from paceline_operator.simulator.law import StepLaw
from paceline_operator.simulator.metering.meter import Meter
from paceline_operator.simulator.request import Request
from paceline_operator.simulator.scoring.outcome import COMPLETED, Outcome
from paceline_operator.simulator.scoring.yardstick import Yardstick
from paceline_operator.simulator.sink import Served

TARGETS_MS = {
    Tier.INTERACTIVE: {
        SloMetric.TTFT: 60,
        SloMetric.ITL: 10,
        SloMetric.TPOT: 7,
        SloMetric.E2E: 500,
    },
    Tier.BATCH: {SloMetric.TTFT: 90, SloMetric.ITL: 9, SloMetric.TPOT: 6, SloMetric.E2E: 400},
}
OBJECTIVES = tuple(
    Objective(name=metric.value, metric=metric, target_ms=target_ms, tier=tier, percentile=80)
    for tier, targets_ms in TARGETS_MS.items()
    for metric, target_ms in targets_ms.items()
)
CONFIG = EngineConfig(
    law=StepLaw(
        base_ms=4.0, per_prefill_token_ms=0.05, per_decode_row_ms=0.3, per_kv_token_ms=2e-3
    ),
    num_kv_blocks=60,
    max_model_len=512,
    max_num_batched_tokens=128,
    max_num_seqs=12,
    initial_batched_tokens=64,
    initial_running_seqs=12,
)


class Book(Meter):
    """A meter that keeps the records of all requests."""

    def __init__(self) -> None:
        super().__init__(OBJECTIVES, 0.0)
        self.records: list[Served] = []

    def admitted(self, served: Served) -> None:
        self.records.append(served)
        super().admitted(served)


def run(seed: int) -> tuple[Book, Window]:
    """Requests in bursts, looked at now and then, until all are answered."""
    draw, book = random.Random(seed), Book()
    engine = Engine(CONFIG, book, 0.0)
    engine.targets(book.itl_targets_ms)
    book.follow(engine)
    now_s, taken = 0.0, []
    for number in range(120):
        now_s += draw.choice([0.0, 0.001, 0.03, 0.25])
        request = Request(
            now_s, draw.randrange(1, 200), draw.randrange(1, 90), tier=draw.choice(list(Tier)).value
        )
        book.received(request.tier, request.prompt_tokens)
        engine.advance(now_s)
        assert engine.submit(request, number, now_s) is None
        if draw.random() < 0.2:
            taken.append(book.take(now_s))
    while engine.next_event_s < inf:
        now_s = engine.next_event_s
        engine.advance(now_s)
    return book, merge([*taken, book.take(now_s)])


def outcome(served: Served) -> Outcome:
    assert served.first_s is not None
    return Outcome(
        served.request.arrival_s,
        served.request.tier,
        served.first_s - served.received_s,
        served.ended_s - served.received_s,
        served.gaps,
        served.late_gaps,
        COMPLETED,
    )


@pytest.mark.parametrize("seed", range(4))
def test_windows_add_up_to_the_records_of_all_requests(seed: int) -> None:
    book, seen = run(seed)
    records, outcomes = book.records, [outcome(served) for served in book.records]
    assert seen.count(Counter.PREEMPTIONS) == sum(served.preemptions for served in records) > 0
    assert seen.count(Counter.REQUESTS_FINISHED) == len(records) == 120
    assert seen.count(Counter.GENERATION_TOKENS) == sum(served.tokens for served in records)
    assert seen.count(Counter.PROMPT_TOKENS) == sum(s.request.prompt_tokens for s in records)
    assert seen.count(Counter.BUSY_SECONDS) == pytest.approx(seen.moments().of("t"))

    yardstick = Yardstick(OBJECTIVES)
    for tier in Tier:
        of_tier = [each for each in outcomes if each.tier == tier]
        assert seen.histogram(Latency.ITL, tier).samples == sum(each.gaps for each in of_tier)
        assert seen.histogram(Latency.TTFT, tier).samples == len(of_tier)
        spent_s = sum(each.e2e_s - each.ttft_s for each in of_tier)
        assert seen.histogram(Latency.ITL, tier).total == pytest.approx(spent_s)
        good = sum(yardstick.goodput(each)[0] for each in of_tier)
        assert book.goodput(tier) == SloCounts(good, len(of_tier) - good)
        assert 0 < good < len(of_tier)
    for each in OBJECTIVES:
        pairs = [yardstick.samples(each, one) for one in outcomes]
        good, total = (sum(column) for column in zip(*pairs, strict=True))
        key = slo_key(each.name, each.metric, each.target_ms, each.tier)
        assert seen.slo[key] == SloCounts(good, total - good)
        assert 0 < good < total
