from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice, pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.simulator.loads.superpose import (
    Tape,
    jitter,
    loop,
    record,
    rekeyed,
    superpose,
)
from paceline_operator.simulator.request import Request

SPAN_S = 100.0


def tape(*requests: Request, span_s: float = SPAN_S) -> Tape:
    return Tape(play=lambda: iter(requests), span_s=span_s)


def every(gap_s: int, until_s: int = 100) -> tuple[Request, ...]:
    """Requests that tell when they were recorded by their prompt's length."""
    return tuple(Request(float(at), 1 + at, 1) for at in range(0, until_s, gap_s))


def is_sorted(requests: list[Request]) -> bool:
    return all(a.arrival_s <= b.arrival_s for a, b in pairwise(requests))


def test_a_recorded_lap_ends_a_mean_gap_after_its_last_request() -> None:
    assert record(lambda: iter(every(20))).span_s == 100.0


def test_a_lap_without_length_is_refused() -> None:
    with pytest.raises(ValueError, match="no length"):
        record(lambda: iter([Request(0.0, 1, 1)]))


def test_a_loop_begins_again_and_ends_in_time() -> None:
    looped = loop(tape(Request(0.0, 7, 1), Request(60.0, 8, 2)), 230.0)
    assert [(r.arrival_s, r.prompt_tokens) for r in looped] == [
        (0.0, 7), (60.0, 8), (100.0, 7), (160.0, 8), (200.0, 7),
    ]  # fmt: skip


@given(st.integers(1, 9), st.sampled_from([0.0, 0.1, 1.0]), st.integers(0, 2**32))
def test_copies_multiply_the_rate_and_lose_nothing(copies: int, spread: float, seed: int) -> None:
    requests = list(superpose(tape(*every(3)), copies, Random(seed), spread=spread))
    assert is_sorted(requests)
    assert all(0 <= r.arrival_s < SPAN_S for r in requests)
    counts = Counter(r.prompt_tokens for r in requests)
    assert counts == {r.prompt_tokens: copies for r in every(3)}


def test_a_narrow_spread_keeps_the_shape() -> None:
    """Nine of ten requests in the first half: they stay there where places lie close."""
    early = tuple(Request(float(at), 1, 1) for at in range(45))
    late = tuple(Request(float(at), 1, 1) for at in range(75, 80))
    shaped = tape(*early, *late)
    narrow = list(superpose(shaped, 40, Random(1), spread=0.05))
    wide = list(superpose(shaped, 40, Random(1), spread=1.0))
    share = [sum(r.arrival_s < 50 for r in found) / len(found) for found in (narrow, wide)]
    assert share[0] > 0.8
    assert 0.3 < share[1] < 0.7


def test_one_copy_from_its_beginning_is_the_tape_with_other_ids() -> None:
    recorded = (Request(0.0, 600, 3, (4, 5)), Request(9.5, 700, 4, (4, 6), "batch"))
    one = list(superpose(tape(*recorded), 1, Random(1), spread=0.0))
    assert [(r.arrival_s, r.prompt_tokens, r.output_tokens, r.tier) for r in one] == [
        (0.0, 600, 3, "interactive"), (9.5, 700, 4, "batch"),
    ]  # fmt: skip
    (a, b), (c, d) = (r.prefix_blocks for r in one)
    assert a == c
    assert len({a, b, d}) == 3


@given(st.integers(1, 5), st.integers(0, 2**32), st.sampled_from([100.0, 250.0, 999.0]))
def test_copies_and_laps_share_no_block(copies: int, seed: int, until_s: float) -> None:
    """In each lap of each copy both requests share one block, and nobody else does."""
    recorded = (Request(0.0, 1024, 1, (0, 1)), Request(10.0, 1024, 2, (0, 2)))
    requests = superpose(tape(*recorded), copies, Random(seed), until_s=until_s)
    holders: dict[int, list[int]] = {}
    for request in requests:
        for block in request.prefix_blocks:
            holders.setdefault(block, []).append(request.output_tokens)
    assert all(sorted(found) in ([1], [2], [1, 2]) for found in holders.values())


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2**64)), unique=True, min_size=2))
def test_keys_on_keys_stay_apart(keyed: list[tuple[int, int]]) -> None:
    """A loop of a loop: ids that differed, or came with other keys, still differ."""
    found = set()
    for key, block in keyed:
        inner = rekeyed([Request(0.0, 1, 1, (block,))], key)
        found |= {r.prefix_blocks for r in rekeyed(inner, 3 - key)}
    assert len(found) == len(keyed)


def test_a_key_beyond_all_keys_is_refused() -> None:
    with pytest.raises(ValueError, match="more than"):
        rekeyed([], 1 << 20)


def test_nothing_is_read_before_it_is_asked_for() -> None:
    read = Counter[str]()

    def play() -> Iterator[Request]:
        for request in every(1):
            read["requests"] += 1
            yield request

    copies = superpose(Tape(play=play, span_s=SPAN_S), 3, Random(1), spread=0.0)
    list(islice(copies, 6))
    assert read["requests"] <= 9


@given(st.lists(st.integers(0, 20), min_size=1, max_size=60), st.integers(0, 2**32))
def test_jitter_moves_within_the_grid(places: list[int], seed: int) -> None:
    on_grid = [Request(3.0 * at, 1 + n, 1) for n, at in enumerate(sorted(places))]
    moved = list(jitter(on_grid, 3.0, Random(seed)))
    assert is_sorted(moved)
    by_prompt = {r.prompt_tokens: r for r in moved}
    assert len(by_prompt) == len(on_grid)
    for request in on_grid:
        assert 0 <= by_prompt[request.prompt_tokens].arrival_s - request.arrival_s < 3.0


def test_jitter_spreads_a_full_grid_evenly() -> None:
    on_grid = [Request(3.0 * (n // 100), 1, 1) for n in range(1000)]
    moved = [r.arrival_s % 3.0 for r in jitter(on_grid, 3.0, Random(1))]
    thirds = Counter(int(at) for at in moved)
    assert all(count == pytest.approx(333, abs=60) for count in thirds.values())
