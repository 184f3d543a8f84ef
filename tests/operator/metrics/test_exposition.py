from __future__ import annotations

from pathlib import Path

import pytest

from paceline_operator.autopilot.vocabulary.window import (
    TERMS,
    Counter,
    Latency,
    SloCounts,
    StepClass,
    Window,
    slo_key,
)
from paceline_operator.metrics import names
from paceline_operator.metrics.errors import ScrapeError
from paceline_operator.metrics.exposition import UNREAD, collect, parse
from paceline_operator.metrics.names import MODEL, Family, Kind
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
    assert seen.totals.slo[slo_key("ttft", "TTFT", 500)].total == 0
    assert set(seen.totals.histograms) == set(Latency) - UNREAD
    assert set(seen.totals.counters) == set(Counter) - UNREAD - {Counter.BATCH_TOKENS_RECEIVED}


def test_offered_is_what_the_interactive_tier_received() -> None:
    text = EngineText()
    text.add(names.PROMPT_TOKENS_RECEIVED, 300.0, tier="interactive")
    text.add(names.PROMPT_TOKENS_RECEIVED, 5000.0, tier="batch")
    counters = parse(text.render()).totals.counters
    assert counters[Counter.PROMPT_TOKENS_RECEIVED] == 5300
    assert Window(start_s=0.0, end_s=5.0, counters=counters).offered_tokens == 300


@pytest.mark.parametrize(
    ("labels", "counted"),
    [
        *(({"reason": each}, True) for each in sorted(names.OVERLOAD_REASONS)),
        *(({"reason": each, "tier": "batch"}, False) for each in sorted(names.OVERLOAD_REASONS)),
        *(({"reason": each}, False) for each in ("draining", "not_ready", "bodies")),
        ({"reason": "never_fits"}, False),
        ({"reason": "not_ready", "tier": "unread"}, False),
        ({"reason": "unauthenticated"}, False),
        ({}, False),
    ],
)
def test_refusals_are_those_of_the_interactive_tier_for_want_of_capacity(
    labels: dict[str, str], counted: bool
) -> None:
    text = EngineText()
    text.add(names.REJECTED, 7.0, **labels)
    found = parse(text.render()).totals.counters.get(Counter.REQUESTS_REJECTED, 0.0)
    assert found == (7.0 if counted else 0.0)


def test_an_engine_without_tiers_refuses_interactive_requests() -> None:
    text = f'{names.START_TIME.full_name} 1\n{names.REJECTED.full_name}{{reason="queue_delay"}} 3\n'
    assert parse(text).totals.counters[Counter.REQUESTS_REJECTED] == 3


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
    itl = {"slo": "itl", "metric": "ITL"}
    text.add(names.SLO_SAMPLES, 7, **itl, target_ms="50", outcome="good")
    text.add(names.SLO_SAMPLES, 1, **itl, target_ms="50", outcome="bad")
    text.add(names.SLO_SAMPLES, 5, **itl, target_ms="80", outcome="bad")
    text.add(names.SLO_SAMPLES, 3, slo="itl", metric="TPOT", target_ms="50", outcome="bad")
    text.add(names.SLO_SAMPLES, 2, **itl, target_ms="50", outcome="bad", tier="batch")
    totals = parse(text.render()).totals
    assert totals.steps[StepClass.MIXED].count == 4
    assert totals.steps[StepClass.MIXED].product("t", "p") == 9
    assert len(totals.steps[StepClass.MIXED].sums) == len(TERMS)
    assert totals.slo[slo_key("itl", "ITL", 50)] == SloCounts(7, 1)
    assert totals.slo[slo_key("itl", "ITL", 80)] == SloCounts(0, 5)
    assert totals.slo[slo_key("itl", "TPOT", 50)] == SloCounts(0, 3)
    assert totals.slo[slo_key("itl", "ITL", 50, "batch")] == SloCounts(0, 2)


def test_latencies_of_the_tiers_stay_apart_and_their_load_adds_up() -> None:
    text = EngineText()
    text.observe(names.TTFT, 0.05)
    text.observe(names.TTFT, 0.7, 0.7, tier="batch")
    text.observe(names.GENERATION_TOKENS_HIST, 0.05)
    text.observe(names.GENERATION_TOKENS_HIST, 0.7, tier="batch")
    text.add(names.REQUESTS_RECEIVED, 2)
    text.add(names.REQUESTS_RECEIVED, 5, tier="batch")
    text.gauge(names.WAITING_TOKENS, 30)
    text.gauge(names.WAITING_TOKENS, 400, tier="batch")
    seen = parse(text.render())
    assert seen.totals.histograms[Latency.TTFT].counts == (1, 0, 0, 0)
    assert seen.totals.batch[Latency.TTFT].counts == (0, 0, 2, 0)
    assert seen.totals.histograms[Latency.GENERATION_TOKENS].counts == (1, 0, 1, 0)
    assert Latency.GENERATION_TOKENS not in seen.totals.batch
    assert seen.totals.counters[Counter.REQUESTS_RECEIVED] == 7
    assert seen.gauge(names.WAITING_TOKENS) == 430
    assert seen.gauge(names.WAITING_TOKENS, "interactive") == 30
    assert seen.gauge(names.WAITING_TOKENS, "batch") == 400
    assert seen.gauge(names.REQUESTS_RUNNING, "batch") == 0


def test_long_prompts_of_a_batch_are_none_of_the_interactive_tier() -> None:
    """First tokens are judged by the longest prompts of those that wait for them."""
    text = EngineText()
    text.observe(names.PROMPT_TOKENS_HIST, 0.05)
    text.observe(names.PROMPT_TOKENS_HIST, 0.7, 0.7, tier="batch")
    seen = parse(text.render())
    assert seen.totals.histograms[Latency.PROMPT_TOKENS].counts == (1, 0, 0, 0)
    assert seen.totals.batch[Latency.PROMPT_TOKENS].counts == (0, 0, 2, 0)


def test_an_engine_that_names_no_metric_can_still_be_read() -> None:
    """One of the version before, which an operator finds after its own upgrade."""
    old = Family("slo_samples_total", Kind.COUNTER, (*MODEL, "slo", "target_ms", "outcome"))
    text = EngineText()
    text.add(old, 7, slo="itl", target_ms="50", outcome="good")
    totals = parse(text.render()).totals
    assert slo_key("itl", "ITL", 50) not in totals.slo


@pytest.mark.parametrize(
    "text",
    ["", "<html>no</html>", "up 1\n", "paceline_engine_requests_running{", "paceline_engine_x 1"],
)
def test_what_is_no_engine_is_refused(text: str) -> None:
    with pytest.raises(ScrapeError):
        parse(text)


def test_a_count_below_zero_is_refused() -> None:
    """The law takes roots of rates: one such pod would end the passes of its whole fleet."""
    name = names.PROMPT_TOKENS_RECEIVED.full_name
    with pytest.raises(ScrapeError, match=f"{name} is -7"):
        collect([(name, {"tier": "interactive"}, -7.0)])


def test_a_kind_of_step_of_a_newer_engine_is_passed_over() -> None:
    text = EngineText()
    text.add(names.STEP_MOMENTS, 4, term="n", **{"class": "speculative"})
    text.add(names.STEP_MOMENTS, 2, term="n", **{"class": "mixed"})
    assert set(parse(text.render()).totals.steps) == {StepClass.MIXED}


def test_what_no_loop_looks_at_is_passed_over() -> None:
    text = EngineText()
    text.observe(names.QUEUE, 0.05)
    text.observe(names.STEP_DURATION, 0.05)
    text.add(names.PREEMPTIONS, 2)
    text.add(names.REQUESTS_RECEIVED, 2)
    text.gauge(names.WAITING_TOKENS, 30)
    totals = parse(text.render()).totals
    assert (set(totals.histograms), set(totals.counters)) == (set(), {Counter.REQUESTS_RECEIVED})
