from __future__ import annotations

from pathlib import Path

import pytest

from paceline_operator.autopilot.window import TERMS, Counter, Latency, StepClass, slo_key
from paceline_operator.metrics import names
from paceline_operator.metrics.errors import ScrapeError
from paceline_operator.metrics.exposition import parse
from tests.operator.metrics.text import EngineText

ENGINE = Path(__file__).parent / "fixtures" / "engine.txt"  # what an engine's server renders


def test_reads_what_an_engine_renders() -> None:
    seen = parse(ENGINE.read_text())
    assert seen.gauge(names.REQUESTS_RUNNING) == 3
    assert seen.gauge(names.WAITING_TOKENS) == 200
    assert seen.gauge(names.MAX_BATCHED_TOKENS) == 512
    assert seen.kv_capacity_tokens == 1600
    ttft = seen.totals.histograms[Latency.TTFT]
    assert ttft.samples == 100
    assert ttft.total == pytest.approx(60.885)
    assert ttft.edges[-1] == float("inf")
    assert set(seen.totals.steps) == set(StepClass)
    assert seen.totals.slo[slo_key("ttft", 500)].total == 0
    assert set(seen.totals.histograms) == set(Latency)
    assert set(seen.totals.counters) == set(Counter)


def test_buckets_are_not_cumulative() -> None:
    text = EngineText()
    text.observe(names.TTFT, 0.05, 0.05, 0.3, 7.0)
    histogram = parse(text.render()).totals.histograms[Latency.TTFT]
    assert histogram.counts == (2, 1, 0, 1)


def test_labels_are_summed_where_the_role_has_none() -> None:
    text = EngineText()
    text.add(names.REQUESTS, 3, outcome="stop")
    text.add(names.REQUESTS, 2, outcome="abort")
    assert parse(text.render()).totals.counters[Counter.REQUESTS_FINISHED] == 5


def test_moments_and_objectives_find_their_place() -> None:
    text = EngineText()
    text.add(names.STEP_MOMENTS, 4, term="n", **{"class": "mixed"})
    text.add(names.STEP_MOMENTS, 9, term="pt", **{"class": "mixed"})
    text.add(names.SLO_SAMPLES, 7, slo="itl", target_ms="50", outcome="good")
    text.add(names.SLO_SAMPLES, 1, slo="itl", target_ms="50", outcome="bad")
    text.add(names.SLO_SAMPLES, 5, slo="itl", target_ms="80", outcome="bad")
    totals = parse(text.render()).totals
    assert totals.steps[StepClass.MIXED].count == 4
    assert totals.steps[StepClass.MIXED].product("t", "p") == 9
    assert len(totals.steps[StepClass.MIXED].sums) == len(TERMS)
    assert (totals.slo["itl@50"].good, totals.slo["itl@50"].bad) == (7, 1)
    assert totals.slo["itl@80"].bad == 5


@pytest.mark.parametrize(
    "text",
    ["", "<html>no</html>", "up 1\n", "paceline_engine_requests_running{", "paceline_engine_x 1"],
)
def test_what_is_no_engine_is_refused(text: str) -> None:
    with pytest.raises(ScrapeError):
        parse(text)


def test_a_kind_of_step_of_a_newer_engine_is_passed_over() -> None:
    text = EngineText()
    text.add(names.STEP_MOMENTS, 4, term="n", **{"class": "speculative"})
    text.add(names.STEP_MOMENTS, 2, term="n", **{"class": "mixed"})
    assert set(parse(text.render()).totals.steps) == {StepClass.MIXED}
