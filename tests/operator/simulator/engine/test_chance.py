"""Single steps that lie around their law."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random
from statistics import fmean, pstdev

import pytest

from paceline_operator.simulator.engine import Engine
from paceline_operator.simulator.engine.chance import Chance
from paceline_operator.simulator.request import Request
from paceline_operator.simulator.step_noise import NO_NOISE, StepNoise
from tests.operator.simulator.engine.test_engine import CONFIG, make

NOISE = StepNoise(decode=0.265, prefill=0.114)


@pytest.mark.parametrize(("prefill_tokens", "sd"), [(0, 0.265), (64, 0.114)])
def test_factors_have_mean_one_and_the_spread_that_is_given(prefill_tokens: int, sd: float) -> None:
    chance = Chance(NOISE, Random(7))
    drawn = [chance.factor(prefill_tokens) for _ in range(20_000)]
    assert fmean(drawn) == pytest.approx(1.0, abs=0.01)
    assert pstdev(drawn) == pytest.approx(sd, rel=0.03)
    assert min(drawn) > 0.0


def test_without_noise_the_law_is_exact() -> None:
    for chance in (Chance(NO_NOISE, Random(7)), Chance(NOISE, None)):
        assert not chance.is_any
        assert {chance.factor(tokens) for tokens in (0, 64)} == {1.0}


def test_equal_seeds_draw_equally_and_others_do_not() -> None:
    drawn = [[Chance(NOISE, Random(seed)).factor(0) for _ in range(3)] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_each_step_of_an_engine_is_drawn() -> None:
    noisy, told = make(step_noise=NOISE, generators=Random, noise_seed=3)
    assert noisy.submit(Request(0.0, 64, 200), 1, 0.0) is None
    ends = []
    while not noisy.is_empty:
        ends.append(noisy.next_event_s)
        noisy.advance(noisy.next_event_s)
    gaps = [after - before for before, after in pairwise(ends)]
    assert len(gaps) == 199
    assert len(set(gaps)) > 190
    assert fmean(gaps) == pytest.approx(CONFIG.law.step_ms(0, 1, 164, 0) / 1e3, rel=0.08)
    exact = Engine(replace(CONFIG, step_noise=NOISE), told, 0.0)
    assert exact.submit(Request(0.0, 64, 200), 1, 0.0) is None
    assert exact.next_event_s == pytest.approx(CONFIG.law.step_ms(64, 0, 64, 64 * 64) / 1e3)
