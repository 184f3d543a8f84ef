from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.autopilot.vocabulary.window import Counter, Latency
from paceline_operator.metrics import names
from paceline_operator.metrics.exposition import Exposition, Totals, parse
from paceline_operator.metrics.increase import increase
from tests.operator.metrics.text import EngineText


@pytest.mark.behaviour(
    "sums and counts are used by their growth, never as they stand",
    report="vllm-project/aibrix#852: a cumulative sum as a gauge only ever scaled out",
)
def test_growth_of_counters_and_histograms() -> None:
    text = EngineText()
    text.add(names.GENERATION_TOKENS, 10)
    text.observe(names.ITL, 0.2)
    text.observe(names.ITL, 0.2, tier="batch")
    before = parse(text.render())
    text.add(names.GENERATION_TOKENS, 5)
    text.observe(names.ITL, 0.2, 0.7)
    text.observe(names.ITL, 0.05, tier="batch")
    grown = increase(before, parse(text.render()))
    assert grown.counters[Counter.GENERATION_TOKENS] == 5
    assert grown.histograms[Latency.ITL].counts == (0, 1, 1, 0)
    assert grown.batch[Latency.ITL].counts == (1, 0, 0, 0)


def test_a_restarted_process_counts_from_zero() -> None:
    old, new = EngineText(started_s=1.0), EngineText(started_s=2.0)
    old.add(names.GENERATION_TOKENS, 10)
    new.add(names.GENERATION_TOKENS, 12)
    grown = increase(parse(old.render()), parse(new.render()))
    assert grown.counters[Counter.GENERATION_TOKENS] == 12


def test_a_family_that_appears_counts_whole() -> None:
    text = EngineText()
    before = parse(text.render())
    text.observe(names.TTFT, 0.05)
    assert increase(before, parse(text.render())).histograms[Latency.TTFT].samples == 1


def test_changed_edges_add_nothing() -> None:
    text = EngineText()
    text.observe(names.TTFT, 0.05)
    after = parse(text.render())
    histogram = after.totals.histograms[Latency.TTFT].on_edges((0.5, float("inf")))
    before = Exposition(totals=Totals(histograms={Latency.TTFT: histogram}), gauges=after.gauges)
    assert increase(before, after).histograms[Latency.TTFT].samples == 0


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=6))
def test_growth_adds_up_to_the_last_total(values: list[int]) -> None:
    """Over any sequence, resets included, nothing is counted twice or negative."""
    totals = [Totals(counters={Counter.GENERATION_TOKENS: float(v)}) for v in values]
    readings = [Exposition(totals=t) for t in totals]
    grown = [increase(a, b).counters[Counter.GENERATION_TOKENS] for a, b in pairwise(readings)]
    resets = sum(a for a, b in pairwise(values) if b < a)
    assert min(grown) >= 0
    assert sum(grown) == values[-1] - values[0] + resets
