"""What requests look like, and since when."""

from __future__ import annotations

import pytest

from paceline_operator.autopilot.window import Counter, Histogram, Latency, Window
from paceline_operator.autopilot.workload import Workload, observe
from tests.operator.autopilot.build import fleet, window

EDGES = (128.0, 512.0, 2048.0, 8192.0, float("inf"))


def cut(place: int, prompt: float, hit_rate: float, rps: float) -> Window:
    """A slice of 5 s; prompts lie in two buckets around their mean."""
    requests, start_s = 5 * rps, 5.0 * place
    bucket = next(n for n, edge in enumerate(EDGES) if edge >= prompt)
    counts = [0.0] * len(EDGES)
    counts[bucket] = counts[max(0, bucket - 1)] = requests / 2
    return window(
        start_s,
        start_s + 5,
        counters={
            Counter.REQUESTS_RECEIVED: requests,
            Counter.PROMPT_TOKENS_RECEIVED: requests * prompt,
            Counter.PREFIX_QUERIES_TOKENS: requests * prompt,
            Counter.PREFIX_HITS_TOKENS: requests * prompt * hit_rate,
        },
        histograms={Latency.PROMPT_TOKENS: Histogram(EDGES, tuple(counts), requests * prompt)},
    )


def seen(*parts: tuple[int, float, float], rps: float = 8.0) -> Workload:
    """Slices of (how many, prompt tokens, hit rate), oldest first."""
    kinds = [(prompt, hits) for count, prompt, hits in parts for _ in range(count)]
    slices = tuple(cut(n, prompt, hits, rps) for n, (prompt, hits) in enumerate(kinds))
    return observe(fleet(slices=slices))


def test_five_minutes_count_while_requests_stay_what_they_are() -> None:
    found = seen((60, 400.0, 0.5))
    assert (found.prompt_mean, found.hit_rate) == (pytest.approx(400.0), pytest.approx(0.5))
    assert found.requests == pytest.approx(60 * 40)


@pytest.mark.parametrize("since", [6, 12, 24])
def test_once_prompts_are_others_only_they_count(since: int) -> None:
    found = seen((60 - since, 400.0, 0.0), (since, 3000.0, 0.0))
    assert found.prompt_mean == pytest.approx(3000.0)


@pytest.mark.parametrize("since", [6, 12, 24])
def test_once_the_cache_finds_less_only_that_counts(since: int) -> None:
    assert seen((60 - since, 2000.0, 0.8), (since, 2000.0, 0.0)).hit_rate == 0.0


def test_what_chance_explains_changes_nothing() -> None:
    found = seen((54, 400.0, 0.5), (6, 430.0, 0.45))
    assert found.requests == pytest.approx(60 * 40)


def test_a_handful_of_requests_is_no_change() -> None:
    found = seen((54, 400.0, 0.5), (6, 3000.0, 0.0), rps=0.5)
    assert found.requests == pytest.approx(60 * 2.5)
