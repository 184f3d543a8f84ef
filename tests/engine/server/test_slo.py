from __future__ import annotations

from collections.abc import Callable

import pytest

from paceline_engine.request import Tier
from paceline_engine.server.admin_wire import Slo, SloMetric
from paceline_engine.server.metric_families import RequestMetrics
from paceline_engine.server.request_meter import Metering, RequestMeter
from paceline_engine.server.request_record import Identity
from paceline_engine.server.slo import SloBoard


class Timeline:
    """A clock with timers, moved by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self._timers: list[tuple[float, Callable[[], None], list[bool]]] = []

    def clock(self) -> float:
        return self.now_s

    def call_later(self, delay: float, callback: Callable[[], None]) -> _Handle:
        alive = [True]
        self._timers.append((self.now_s + delay, callback, alive))
        return _Handle(alive)

    def advance(self, seconds: float) -> None:
        self.now_s += seconds
        due = [timer for timer in self._timers if timer[0] <= self.now_s]
        self._timers = [timer for timer in self._timers if timer[0] > self.now_s]
        for _, callback, alive in due:
            if alive[0]:
                callback()


class _Handle:
    def __init__(self, alive: list[bool]) -> None:
        self._alive = alive

    def cancel(self) -> None:
        self._alive[0] = False


class Bench:
    """A meter with one objective of each metric and tier, 1 s each, on a given percentile."""

    def __init__(self, percentile: int = 50) -> None:
        self.time = Timeline()
        self.board = SloBoard("m")
        self.metrics = RequestMetrics("m")
        self.metering = Metering(
            metrics=self.metrics,
            board=self.board,
            clock=self.time.clock,
            call_later=self.time.call_later,
        )
        self.board.replace(
            tuple(
                Slo(name=each.value, tier=tier, metric=each, target_ms=1000, percentile=percentile)
                for each in SloMetric
                for tier in Tier
            )
        )

    def admit(self, waited_s: float = 0.0, tier: Tier = Tier.INTERACTIVE) -> RequestMeter:
        received_at = self.time.now_s - waited_s
        return self.metering.admit(received_at, 10, Identity(tier=tier))

    def samples(self, metric: SloMetric, tier: Tier = Tier.INTERACTIVE) -> tuple[int, int]:
        family = next(iter(self.board.collect()))
        counts = {
            sample.labels["outcome"]: int(sample.value)
            for sample in family.samples
            if sample.labels["slo"] == metric.value and sample.labels["tier"] == tier.value
        }
        return counts["good"], counts["bad"]

    def goodput(self, tier: Tier = Tier.INTERACTIVE) -> tuple[float, float]:
        name = "paceline_engine_goodput_requests_total"
        return tuple(  # type: ignore[return-value]
            self.metrics.registry.get_sample_value(
                name, {"model_name": "m", "tier": tier.value, "outcome": outcome}
            )
            for outcome in ("good", "bad")
        )


def produce(bench: Bench, meter: RequestMeter, *gaps_s: float) -> None:
    for gap_s in gaps_s:
        bench.time.advance(gap_s)
        meter.tokens(1)
        meter.emitted()


def test_a_request_in_time_is_good_once() -> None:
    bench = Bench()
    meter = bench.admit()
    produce(bench, meter, 0.5, 0.1, 0.1)
    meter.complete("stop")
    bench.time.advance(60)
    for metric, good in (("TTFT", 1), ("ITL", 2), ("TPOT", 1), ("E2E", 1)):
        assert bench.samples(SloMetric(metric)) == (good, 0)
    assert bench.goodput() == (1, 0)


def test_bad_at_the_moment_it_becomes_late_while_it_still_waits() -> None:
    bench = Bench()
    meter = bench.admit(waited_s=0.4)
    bench.time.advance(0.59)
    assert bench.samples(SloMetric.TTFT) == (0, 0)
    bench.time.advance(0.02)
    assert bench.samples(SloMetric.TTFT) == (0, 1)
    produce(bench, meter, 5.0, 0.1)
    meter.complete("length")
    assert bench.samples(SloMetric.TTFT) == (0, 1)
    assert bench.goodput() == (0, 1)


@pytest.mark.parametrize(("wait_s", "bad"), [(0.9, 0), (1.1, 1)])
def test_an_abort_counts_only_if_it_was_late(wait_s: float, bad: int) -> None:
    bench = Bench()
    meter = bench.admit()
    bench.time.advance(wait_s)
    meter.abandon("abort")
    bench.time.advance(60)
    assert bench.samples(SloMetric.TTFT) == (0, bad)
    assert bench.samples(SloMetric.E2E) == (0, bad)
    assert bench.goodput() == (0, bad)


def test_an_error_is_bad_at_once() -> None:
    bench = Bench()
    bench.admit().abandon("error")
    bench.time.advance(60)
    assert bench.samples(SloMetric.TTFT) == (0, 1)
    assert bench.samples(SloMetric.ITL) == (0, 0)
    assert bench.goodput() == (0, 1)


def test_a_refusal_is_bad_for_all_but_gaps() -> None:
    bench = Bench()
    bench.metering.refuse("queued_tokens")
    for metric in SloMetric:
        assert bench.samples(metric) == (0, 0 if metric is SloMetric.ITL else 1)


@pytest.mark.parametrize(
    ("percentile", "late_gaps", "good"),
    [(50, 2, True), (50, 3, False), (75, 1, True), (75, 2, False), (99, 0, True), (99, 1, False)],
)
def test_goodput_takes_the_requests_own_itl_percentile(
    percentile: int, late_gaps: int, good: bool
) -> None:
    bench = Bench(percentile)
    meter = bench.admit()
    produce(bench, meter, 0.1, *[2.0] * late_gaps, *[0.1] * (4 - late_gaps))
    meter.complete("stop")
    assert bench.samples(SloMetric.ITL) == (4 - late_gaps, late_gaps)
    assert bench.goodput() == ((1, 0) if good else (0, 1))


def test_a_gap_that_a_client_dies_in_counts_if_it_was_late() -> None:
    bench = Bench()
    meter = bench.admit()
    produce(bench, meter, 0.1)
    bench.time.advance(1.5)
    meter.abandon("abort")
    assert bench.samples(SloMetric.ITL) == (0, 1)


def test_an_answer_without_text_still_has_its_ttft() -> None:
    bench = Bench()
    meter = bench.admit()
    bench.time.advance(0.3)
    meter.complete("stop")
    bench.time.advance(60)
    assert bench.samples(SloMetric.TTFT) == (1, 0)
    assert meter.ttft_s == pytest.approx(0.3)


def test_a_request_is_judged_by_what_was_in_force_when_it_came() -> None:
    bench = Bench()
    meter = bench.admit()
    bench.board.replace((Slo(name="new", metric=SloMetric.TTFT, target_ms=1),))
    produce(bench, meter, 0.5)
    meter.complete("stop")
    family = next(iter(bench.board.collect()))
    new = {s.labels["outcome"]: s.value for s in family.samples if s.labels["slo"] == "new"}
    assert new == {"good": 0, "bad": 0}
    assert bench.samples(SloMetric.TTFT) == (1, 0)


@pytest.mark.parametrize("tier", Tier)
def test_objectives_have_samples_of_their_own_tier_only(tier: Tier) -> None:
    other = next(each for each in Tier if each is not tier)
    bench = Bench()
    meter = bench.admit(tier=tier)
    produce(bench, meter, 5.0, 0.1)
    meter.complete("stop")
    bench.metering.refuse("queued_tokens", tier)
    assert bench.samples(SloMetric.TTFT, tier) == (0, 2)
    assert bench.samples(SloMetric.ITL, tier) == (1, 0)
    assert bench.goodput(tier) == (0, 2)
    for metric in SloMetric:
        assert bench.samples(metric, other) == (0, 0)
    assert bench.goodput(other) == (0, 0)


def test_an_objective_of_an_unknown_tier_has_no_samples() -> None:
    bench = Bench()
    bench.board.replace((Slo(name="b", tier="other", metric=SloMetric.TTFT, target_ms=1),))
    meter = bench.admit()
    produce(bench, meter, 5.0)
    meter.complete("stop")
    assert {sample.value for sample in next(iter(bench.board.collect())).samples} == {0}
    assert bench.goodput() == (1, 0)


def test_an_objective_that_changes_its_metric_or_tier_mixes_no_samples() -> None:
    bench = Bench()
    variants = [
        Slo(name="same", metric=SloMetric.TTFT, target_ms=1000),
        Slo(name="same", metric=SloMetric.E2E, target_ms=1000),
        Slo(name="same", metric=SloMetric.E2E, target_ms=1000, tier=Tier.BATCH),
    ]
    for slo, tier in zip(variants, (Tier.INTERACTIVE, Tier.INTERACTIVE, Tier.BATCH), strict=True):
        bench.board.replace((slo,))
        meter = bench.admit(tier=tier)
        produce(bench, meter, 0.5)
        meter.complete("stop")
    found = {
        (s.labels["tier"], s.labels["metric"]): s.value
        for s in next(iter(bench.board.collect())).samples
        if s.labels["slo"] == "same" and s.labels["outcome"] == "good"
    }
    assert found == {
        ("interactive", "TTFT"): 1,
        ("interactive", "E2E"): 1,
        ("batch", "E2E"): 1,
    }


def test_tpot_runs_to_the_end_and_not_to_the_last_text() -> None:
    bench = Bench()
    meter = bench.admit()
    produce(bench, meter, 0.5)
    meter.tokens(1)  # shows no text
    bench.time.advance(2.0)
    meter.complete("stop")
    assert bench.samples(SloMetric.TPOT) == (0, 1)


def test_an_error_is_bad_for_tpot_too_and_an_abort_is_not() -> None:
    bench = Bench()
    for outcome, bad in (("abort", 0), ("error", 1)):
        meter = bench.admit()
        produce(bench, meter, 0.1, 0.1)
        meter.abandon(outcome)
        assert bench.samples(SloMetric.TPOT) == (0, bad)
