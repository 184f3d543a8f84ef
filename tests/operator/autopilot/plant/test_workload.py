"""What requests look like, and since when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline_operator.autopilot.plant.workload import Workload, known, observe
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.autopilot.vocabulary.memory import Memory, Shape
from paceline_operator.autopilot.vocabulary.window import Counter, Histogram, Latency, Window
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


@pytest.mark.parametrize("since", [2, 4, 6, 12, 24])
def test_once_prompts_are_others_only_they_count(since: int) -> None:
    found = seen((60 - since, 400.0, 0.0), (since, 3000.0, 0.0))
    assert found.prompt_mean == pytest.approx(3000.0)


@pytest.mark.parametrize("since", [2, 4, 6, 12, 24])
def test_once_the_cache_finds_less_only_that_counts(since: int) -> None:
    assert seen((60 - since, 2000.0, 0.8), (since, 2000.0, 0.0)).hit_rate == 0.0


def test_what_chance_explains_changes_nothing() -> None:
    found = seen((54, 400.0, 0.5), (6, 430.0, 0.45))
    assert found.requests == pytest.approx(60 * 40)


def test_a_handful_of_requests_is_no_change() -> None:
    found = seen((54, 400.0, 0.5), (6, 3000.0, 0.0), rps=0.5)
    assert found.requests == pytest.approx(60 * 2.5)


def answered(made: float, *, ends: float = 10.0, ended: float = 10.0, cuts: int = 60) -> float:
    """Mean answer where those that ended had 400 tokens, and so many were made for each end."""
    histogram = Histogram(EDGES, (0.0, ended, 0.0, 0.0, 0.0), 400.0 * ended)
    slices = tuple(
        replace(
            each,
            histograms={**each.histograms, Latency.GENERATION_TOKENS: histogram},
            counters={
                **each.counters,
                Counter.GENERATION_TOKENS: ends * made,
                Counter.REQUESTS_FINISHED: ends,
            },
        )
        for each in (cut(n, 400.0, 0.0, 8.0) for n in range(cuts))
    )
    return observe(fleet(slices=slices)).output_mean


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (400.0, 400.0),  # as many tokens as the answers that ended have: a steady state
        (700.0, 700.0),  # long ones have begun, none of which has ended yet
        (2000.0, 800.0),  # that much longer nobody takes them to be
        (100.0, 400.0),  # a load that has gone: what ends was made before
        (0.0, 400.0),  # an engine that does not count them
    ],
)
def test_answers_that_still_run_make_them_longer(made: float, expected: float) -> None:
    assert answered(made) == pytest.approx(expected)


def test_those_who_left_before_the_end_make_answers_no_longer() -> None:
    """Half of the callers leave after 200 tokens of 400."""
    assert answered(300.0, ends=20.0, ended=10.0) == pytest.approx(400.0)


def test_a_handful_of_ends_says_nothing_of_what_still_runs() -> None:
    assert answered(700.0, ends=6.0, ended=6.0, cuts=3) == pytest.approx(400.0)
    assert answered(700.0, ends=7.0, ended=7.0, cuts=3) == pytest.approx(700.0)


def shaped(**more: float) -> Memory:
    """What requests of 400 tokens were remembered as."""
    given = {"seen_at_s": 1000.0, "prompt_mean": 400.0, "prompt_p50": 350.0, "prompt_p95": 900.0,
             "prompt_cv2": 0.5, "output_mean": 90.0, "hit_rate": 0.3, **more}  # fmt: skip
    return Memory(shape=Shape(**given))


def few(requests: float, prompt: float, hit_rate: float = 0.3) -> FleetObservation:
    """The first ten seconds after a restart."""
    return fleet(slices=tuple(cut(n, prompt, hit_rate, requests / 10) for n in range(2)))


@pytest.mark.parametrize(
    ("requests", "mean", "hit_rate", "after_s", "is_remembered"),
    [
        (12, 700.0, 0.3, 60.0, True),  # after a restart: chance
        (60, 430.0, 0.3, 60.0, True),
        (60, 3000.0, 0.3, 60.0, False),  # no chance: requests are others now
        (60, 430.0, 0.0, 60.0, False),  # or are no longer found in the cache
        (120, 430.0, 0.3, 60.0, False),  # enough by themselves
        (12, 700.0, 0.3, 901.0, False),  # too long ago
    ],
)
def test_few_requests_do_not_tell_what_they_look_like(
    requests: int, mean: float, hit_rate: float, after_s: float, is_remembered: bool
) -> None:
    seen = few(requests, mean, hit_rate)
    found, _ = known(seen, shaped(), 1000.0 + after_s)
    assert found.prompt_mean == pytest.approx(400.0 if is_remembered else mean)
    assert (found.prompt_p95 == 900.0) is is_remembered
    assert known(seen, Memory(), 1000.0)[0] == observe(seen)


def test_what_enough_requests_look_like_is_remembered() -> None:
    _, memory = known(few(100, 500.0), shaped(), 2000.0)
    assert memory.shape is not None
    assert memory.shape.seen_at_s == 2000.0
    assert memory.shape.prompt_mean == pytest.approx(500.0)
    found, kept = known(few(8, 900.0), memory, 2060.0)
    assert found.prompt_mean == pytest.approx(500.0)
    assert kept is memory


@pytest.mark.parametrize(
    ("share", "tokens"), [(0.5, 400), (0.725, 700), (0.95, 1000), (0.97, 15500), (0.99, 30000),
                          (0.999, 30000)]
)  # fmt: skip
def test_the_longest_prompts_in_a_hundred_are_known_by_themselves(
    share: float, tokens: float
) -> None:
    work = Workload(prompt_p50=400, prompt_p95=1000, prompt_p99=30000)
    assert work.prompt_at(share) == pytest.approx(tokens)


def test_what_was_remembered_before_that_has_no_longer_ones_than_the_95th() -> None:
    assert Workload(prompt_p50=400, prompt_p95=1000).prompt_at(0.99) == 1000


def both_tiers(batch: int) -> Window:
    """Of 40 requests in 5 s so many are a batch's of 5,000 tokens, the others of 200."""
    own = 40 - batch
    tokens = 200.0 * own + 5000.0 * batch
    return window(
        counters={Counter.REQUESTS_RECEIVED: 40.0, Counter.PROMPT_TOKENS_RECEIVED: tokens},
        histograms={
            Latency.PROMPT_TOKENS: Histogram(EDGES, (own / 2, own / 2, 0, 0, 0), 200.0 * own)
        },
        batch={Latency.PROMPT_TOKENS: Histogram(EDGES, (0, 0, 0, batch, 0), 5000.0 * batch)},
    )


def test_a_few_more_of_a_batch_are_no_other_requests() -> None:
    """Their length varies as both tiers' do: 6 in 40 in place of 4 is chance."""
    counts = [4] * 56 + [6] * 4
    slices = tuple(
        replace(both_tiers(count), start_s=5.0 * n, end_s=5.0 * n + 5)
        for n, count in enumerate(counts)
    )
    found = observe(fleet(slices=slices))
    assert found.requests == 60 * 40
    assert found.prompt_p95 < 512
