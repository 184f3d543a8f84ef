from __future__ import annotations

import math
from collections import Counter
from random import Random
from statistics import fmean, quantiles

import pytest

from paceline_operator.simulator.loads.lengths import (
    LogNormal,
    LogNormalLengths,
    ResampledLengths,
)
from paceline_operator.simulator.loads.popularity import Popularity


def test_log_normal_has_its_mean_and_its_tail() -> None:
    drawn = LogNormal(mean=1000, sigma=0.5, most=100_000)
    generator = Random(1)
    tokens = [drawn.draw(generator) for _ in range(4000)]
    assert fmean(tokens) == pytest.approx(1000, rel=0.03)
    p95 = 1000 * math.exp(1.645 * 0.5 - 0.125)
    assert quantiles(tokens, n=20)[-1] == pytest.approx(p95, rel=0.05)


def test_lengths_are_cut_on_both_sides() -> None:
    drawn = LogNormal(mean=50, sigma=2.0, least=20, most=80)
    generator = Random(1)
    tokens = {drawn.draw(generator) for _ in range(500)}
    assert (min(tokens), max(tokens)) == (20, 80)


def test_prompt_and_output_have_lengths_of_their_own() -> None:
    same = LogNormal(mean=9, sigma=0.0, most=9), LogNormal(mean=4, sigma=0.0, most=9)
    assert LogNormalLengths(prompt=same[0], output=same[1]).draw(Random(1)) == (9, 4)


def test_pairs_are_resampled_whole_and_evenly() -> None:
    pairs = ((1, 10), (2, 20), (3, 30))
    generator = Random(1)
    drawn = Counter(ResampledLengths(pairs).draw(generator) for _ in range(3000))
    assert set(drawn) == set(pairs)
    assert all(found == pytest.approx(1000, abs=110) for found in drawn.values())


@pytest.mark.parametrize(("skew", "shares"), [(0.0, (1 / 3,) * 3), (1.0, (6 / 11, 3 / 11, 2 / 11))])
def test_popularity_follows_zipf(skew: float, shares: tuple[float, ...]) -> None:
    generator = Random(1)
    drawn = Counter(Popularity(3, skew).draw(generator) for _ in range(6000))
    assert [drawn[kind] / 6000 for kind in range(3)] == pytest.approx(shares, abs=0.03)
