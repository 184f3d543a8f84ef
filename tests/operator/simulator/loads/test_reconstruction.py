from __future__ import annotations

import random
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.autopilot.vocabulary.window import Histogram
from paceline_operator.simulator.loads.reconstruction import Measured, Reconstruction, Sizes
from paceline_operator.simulator.request import Request

EDGES = (1.0, 10.0, 100.0, 1000.0, inf)


def sizes(*counts: float, mean: float = 0.0, total: float = 0.0) -> Sizes:
    return Sizes(histogram=Histogram(EDGES, counts, total), mean=mean)


def measured(rps: float, hit_share: float = 0.0, prompt_mean: float = 400.0) -> Measured:
    return Measured(
        duration_s=60.0,
        rps=rps,
        prompts=sizes(0, 0, 3, 7, 0, mean=prompt_mean),
        outputs=sizes(0, 4, 6, 0, 0, total=10 * 42.0),
        hit_share=hit_share,
    )


def played(*parts: Measured, seed: int = 1) -> list[Request]:
    load = Reconstruction(tiers={"interactive": parts})
    return list(load.requests(random.Random(seed)))


def test_arrivals_follow_the_rate_of_their_stretch() -> None:
    load = played(measured(2.0), measured(0.0), measured(8.0))
    counts = [sum(s <= each.arrival_s < s + 60 for each in load) for s in (0, 60, 120)]
    assert counts[1] == 0
    assert counts[0] == pytest.approx(120, rel=0.3)
    assert counts[2] == pytest.approx(480, rel=0.15)
    assert Reconstruction(tiers={"interactive": [measured(2.0)] * 3}).duration_s == 180.0


def test_means_are_those_that_were_counted() -> None:
    load = played(*[measured(20.0)] * 10)
    assert sum(each.prompt_tokens for each in load) / len(load) == pytest.approx(400, rel=0.03)
    assert sum(each.output_tokens for each in load) / len(load) == pytest.approx(42, rel=0.03)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3, 0.9])
@pytest.mark.parametrize("prompt_mean", [60.0, 400.0, 6000.0])
def test_prompts_share_as_much_as_was_found(share: float, prompt_mean: float) -> None:
    load = played(*[measured(20.0, share, prompt_mean)] * 10)
    shared = sum(min(512 * len(each.prefix_blocks), each.prompt_tokens) for each in load)
    total = sum(each.prompt_tokens for each in load)
    assert shared / total == pytest.approx(share, abs=0.03)


def test_tiers_keep_apart() -> None:
    parts = [measured(5.0, 0.9)]
    load = Reconstruction(tiers={"interactive": parts, "batch": parts})
    requests = list(load.requests(random.Random(1)))
    assert [each.arrival_s for each in requests] == sorted(each.arrival_s for each in requests)
    first = {each.tier: each.prefix_blocks[0] for each in requests if each.prefix_blocks}
    assert len(set(first.values())) == 2


@given(st.integers(0, 9999), st.lists(st.floats(0, 100), min_size=5, max_size=5))
def test_every_length_can_be_sent(seed: int, counts: list[float]) -> None:
    if sum(counts) < 1e-6:
        counts[0] = 1.0
    found = sizes(*counts)
    chance = random.Random(seed)
    assert all(1 <= found.draw(chance) <= 2000 for _ in range(20))


def test_equal_chance_gives_equal_requests() -> None:
    parts = [measured(5.0, 0.4), measured(2.0)]
    assert played(*parts, seed=7) == played(*parts, seed=7)
    assert played(*parts, seed=7) != played(*parts, seed=8)
