"""Windows of hand-made work. `tests/contract` holds the meter equal to the real engine's."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from paceline_operator.api.v1alpha1 import SloMetric
from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.autopilot.vocabulary.window import (
    Counter,
    Latency,
    SloCounts,
    StepClass,
    Window,
    merge,
)
from paceline_operator.simulator.metering.meter import Meter
from tests.operator.autopilot.build import moments
from tests.operator.simulator.served import begun, over, waiting

TTFT = Objective(name="first", metric=SloMetric.TTFT, target_ms=1000)
ITL = Objective(name="pace", metric=SloMetric.ITL, target_ms=50)


def mixed(
    meter: Meter, seconds: float, rows: int = 0, batch: int = 0, *, full: bool = False
) -> None:
    meter.step(
        end_s=0.0, seconds=seconds, prefill_tokens=10, interactive_rows=rows, batch_rows=batch,
        kv_tokens=100, chunk_context=50, at_budget=full,
    )  # fmt: skip


def decoding(
    meter: Meter, steps: int, first_s: float, growth_s: float = 0.0, rows: int = 1
) -> None:
    meter.stretch(
        start_s=0.0, steps=steps, interactive_rows=rows, batch_rows=0, kv_tokens=100,
        first_s=first_s, growth_s=growth_s, at_budget=False,
    )  # fmt: skip


def test_an_idle_engine_reports_the_time_alone() -> None:
    meter = Meter([TTFT], 10.0)
    assert meter.take(15.0) == Window(
        start_s=10.0,
        end_s=15.0,
        pod_seconds=5.0,
        slo={"interactive:first:TTFT@1000": SloCounts()},
    )


def test_one_request_from_first_byte_to_last_token() -> None:
    meter, served = Meter([TTFT, ITL], 0.0), waiting(1.0, prompt_tokens=300)
    meter.received("interactive", 300)
    meter.admitted(served)
    mixed(meter, 0.4, full=True)
    begun(served, 1.4).started_s = 1.1
    meter.first_token(served)
    decoding(meter, 2, first_s=0.04, growth_s=0.02)
    meter.ended(over(served, 1.5, late=1), "length")
    seen = meter.take(5.0)

    assert seen.counters == {
        Counter.REQUESTS_RECEIVED: 1,
        Counter.PROMPT_TOKENS_RECEIVED: 300,
        Counter.REQUESTS_FINISHED: 1,
        Counter.PROMPT_TOKENS: 300,
        Counter.GENERATION_TOKENS: 3,
        Counter.STEPS_AT_BUDGET: 1,
        Counter.BUSY_SECONDS: pytest.approx(0.5),
    }
    assert seen.steps.keys() == {StepClass.PREFILL_ONLY, StepClass.DECODE_ONLY}
    wanted = moments((0, 1, 100, 0, 0.04), (0, 1, 101, 0, 0.06))
    assert seen.moments(StepClass.DECODE_ONLY).sums == pytest.approx(wanted.sums)
    samples = {latency: found.total for latency, found in seen.histograms.items()}
    assert samples == {
        Latency.TTFT: pytest.approx(0.4),
        Latency.ITL: pytest.approx(0.1),
        Latency.TPOT: pytest.approx(0.05),
        Latency.E2E: pytest.approx(0.5),
        Latency.QUEUE: pytest.approx(0.1),
        Latency.STEP: pytest.approx(0.5),
        Latency.PROMPT_TOKENS: 300,
        Latency.GENERATION_TOKENS: 3,
    }
    assert seen.histogram(Latency.ITL).below(0.05) == 1
    assert seen.slo == {
        "interactive:first:TTFT@1000": SloCounts(1, 0),
        "interactive:pace:ITL@50": SloCounts(1, 1),
    }
    assert meter.goodput() == SloCounts(bad=1)  # its own p95 is the longer of two gaps


def test_latencies_of_the_tiers_stay_apart_and_their_load_adds_up() -> None:
    meter = Meter([ITL], 0.0)
    for tier, first_s in (("interactive", 0.2), ("batch", 3.0)):
        served = waiting(0.0, tier)
        meter.received(tier, 100)
        meter.admitted(served)
        meter.first_token(begun(served, first_s))
    mixed(meter, 0.08, rows=2, batch=5)
    seen = meter.take(5.0)
    assert seen.count(Counter.PROMPT_TOKENS_RECEIVED) == 200
    assert seen.count(Counter.GENERATION_TOKENS) == 9
    assert seen.histogram(Latency.PROMPT_TOKENS).samples == 1
    assert seen.histogram(Latency.PROMPT_TOKENS, "batch").samples == 1
    assert seen.histogram(Latency.QUEUE).samples == 2
    assert seen.histogram(Latency.TTFT).total == pytest.approx(0.2)
    assert seen.histogram(Latency.TTFT, "batch").total == pytest.approx(3.0)
    assert seen.histogram(Latency.ITL).samples == 2
    assert seen.histogram(Latency.ITL, "batch").samples == 5
    assert seen.slo["interactive:pace:ITL@50"] == SloCounts(0, 2)


def test_refusals_are_misses_except_where_another_serves() -> None:
    meter = Meter([TTFT, ITL], 0.0)
    for reason in ("queued_requests", "draining", "queue_delay", "never_fits"):
        meter.refused("interactive", reason)
    seen = meter.take(5.0)
    assert seen.counters == {Counter.REQUESTS_REJECTED: 4}
    assert seen.slo["interactive:first:TTFT@1000"] == SloCounts(0, 2)
    assert seen.slo["interactive:pace:ITL@50"] == SloCounts()
    assert meter.goodput() == SloCounts(bad=2)


def test_a_gap_over_a_preemption_is_a_token_and_a_sample() -> None:
    meter, served = Meter([ITL], 0.0), begun(waiting(0.0), 1.0)
    meter.gap(served, 2.5)
    seen = meter.take(5.0)
    assert seen.counters == {Counter.GENERATION_TOKENS: 1}
    assert seen.histogram(Latency.ITL).total == 2.5
    assert seen.slo["interactive:pace:ITL@50"] == SloCounts(0, 1)


def test_windows_add_up_to_one_that_was_taken_later() -> None:
    """A missed scrape loses nothing."""

    def run(*looks_s: float) -> Window:
        meter, taken = Meter([TTFT, ITL], 0.0), []
        late, quick = waiting(0.0), waiting(0.5)
        meter.admitted(late)
        meter.admitted(quick)
        for place, look_s in enumerate((1.0, 2.0, 3.0)):
            mixed(meter, 0.06, rows=place, batch=1)
            decoding(meter, 3, first_s=0.045, growth_s=0.004)
            if place == 0:
                meter.first_token(begun(quick, 0.9))
            if place == 2:
                meter.first_token(begun(late, 2.9))
            if look_s in looks_s:
                taken.append(meter.take(look_s))
        return merge(taken)

    often, once = run(1.0, 2.0, 3.0), run(3.0)
    assert often.counters == pytest.approx(once.counters)
    assert often.slo == once.slo
    for kind, sums in once.steps.items():
        assert often.steps[kind].sums == pytest.approx(sums.sums)
    for found, wanted in ((often.histograms, once.histograms), (often.batch, once.batch)):
        assert {k: h.counts for k, h in found.items()} == {k: h.counts for k, h in wanted.items()}


def test_new_targets_count_from_then_on() -> None:
    meter = Meter([ITL], 0.0)
    decoding(meter, 2, first_s=0.06)
    meter.set_objectives([Objective(name="pace", metric=SloMetric.ITL, target_ms=70)], 1.0)
    assert meter.itl_targets_ms == (70,)
    decoding(meter, 3, first_s=0.06)
    seen = meter.take(5.0)
    assert seen.slo == {
        "interactive:pace:ITL@50": SloCounts(0, 2),
        "interactive:pace:ITL@70": SloCounts(3, 0),
    }
    assert seen.histogram(Latency.ITL).samples == 5
    assert seen.moments(StepClass.DECODE_ONLY).count == 5


def test_what_the_engine_counts_itself_is_in_the_windows() -> None:
    @dataclass
    class Engine:
        preemptions: int = 3
        prefix_queries_tokens: int = 1000
        prefix_hits_tokens: int = 100

    meter, engine = Meter([], 0.0), Engine()
    meter.follow(engine)
    engine.preemptions, engine.prefix_queries_tokens = 5, 1600
    first = meter.take(5.0)
    engine.prefix_hits_tokens = 500
    second = meter.take(10.0)
    assert first.count(Counter.PREEMPTIONS) == 2
    assert first.count(Counter.PREFIX_QUERIES_TOKENS) == 600
    assert first.count(Counter.PREFIX_HITS_TOKENS) == 0
    assert second.count(Counter.PREFIX_HITS_TOKENS) == 400
