from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_operator.autopilot.plant import fit
from paceline_operator.autopilot.plant.law import Law, StepLoad
from paceline_operator.autopilot.plant.prior import GENERIC, PROFILES, prior_of
from paceline_operator.autopilot.vocabulary.memory import FitMemory
from paceline_operator.autopilot.vocabulary.window import Moments
from tests.operator.autopilot.build import moments

CPU = Law(
    base_ms=45.0,
    per_prefill_token_ms=4.2,
    per_decode_row_ms=4.5,
    per_kv_token_ms=0.004,
    per_chunk_context_ms=2e-4,
)


def steps(law: Law, count: int, seed: int = 0, noise: float = 0.0, most: int = 512) -> Moments:
    chance = random.Random(seed)
    made = []
    for _ in range(count):
        prefill, rows = chance.randint(1, most), chance.randint(0, 16)
        kv = rows * chance.randint(100, 900) + prefill
        load = StepLoad(
            prefill_tokens=prefill,
            decode_rows=rows,
            kv_tokens=kv,
            chunk_context=prefill * chance.randint(prefill, 2000),
        )
        took = law.step_ms(load) * chance.gauss(1.0, noise) / 1e3
        made.append((prefill, rows, kv, load.chunk_context, took))
    return moments(*made)


def learned(law: Law, windows: int = 6, noise: float = 0.0, most: int = 512) -> FitMemory:
    found = FitMemory()
    for number in range(windows):
        seen = steps(law, 40, number, noise, most)
        found = fit.learn(found, seen, fit.PREFILL, GENERIC.prefill)
    return found


def solved(memory: FitMemory) -> fit.Estimate:
    prior = GENERIC.prefill
    return fit.estimate(memory, fit.PREFILL, prior, GENERIC.relative_sd, scale_free=True)


FULL = StepLoad(prefill_tokens=500, decode_rows=12, kv_tokens=6000, chunk_context=4e5)


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_law_far_from_the_prior_is_learned(noise: float) -> None:
    found = solved(learned(CPU, noise=noise))
    assert found.step_ms(FULL) == pytest.approx(CPU.step_ms(FULL), rel=0.05)
    assert found.relative_sd(FULL) < 0.05


def test_noise_is_seen() -> None:
    assert solved(learned(CPU, noise=0.15)).noise_share == pytest.approx(0.15, abs=0.06)


def test_extrapolation_is_less_certain_than_interpolation() -> None:
    found = solved(learned(CPU, windows=1, noise=0.1, most=100))
    far = replace(FULL, prefill_tokens=4000, chunk_context=4e6)
    near = replace(FULL, prefill_tokens=80, chunk_context=8e4)
    assert found.relative_sd(far) > found.relative_sd(near)


def test_nothing_seen_is_not_certain() -> None:
    assert solved(FitMemory()).relative_sd(FULL) > 0.5


def test_a_named_profile_is_certain_from_the_start() -> None:
    prior = prior_of("llama-3-70b-a100-tp4")
    found = fit.estimate(
        FitMemory(), fit.PREFILL, prior.prefill, prior.relative_sd, scale_free=False
    )
    assert found.relative_sd(FULL) < 0.15


def test_profiles_are_positive() -> None:
    for prior in (GENERIC, *PROFILES.values()):
        assert min(prior.prefill.coefficient(v) for v in fit.PREFILL) > 0
        assert min(prior.decode.coefficient(v) for v in fit.DECODE) > 0


def test_one_absurd_window_is_refused() -> None:
    """The machine stood still for a while: that is not the plant."""
    before = learned(CPU, noise=0.05)
    stalled = replace_scale(CPU, 8.0)
    after = fit.learn(before, steps(stalled, 10, 99), fit.PREFILL, GENERIC.prefill)
    assert after.rejected == 1
    assert solved(after).step_ms(FULL) == solved(before).step_ms(FULL)


def test_a_lasting_change_is_accepted_in_the_end() -> None:
    memory = learned(CPU, noise=0.05)
    slower = replace_scale(CPU, 5.0)
    for number in range(8):
        memory = fit.learn(memory, steps(slower, 40, number), fit.PREFILL, GENERIC.prefill)
    assert solved(memory).step_ms(FULL) == pytest.approx(slower.step_ms(FULL), rel=0.2)


def test_constant_operation_does_not_wind_up() -> None:
    """Hours of the very same step leave other directions as the prior has them."""
    memory = FitMemory()
    one = (100.0, 4.0, 2000.0, 20000.0, 0.5)
    for _ in range(3000):
        memory = fit.learn(memory, moments(*[one] * 10), fit.PREFILL, GENERIC.prefill)
    assert memory.steps < 1100
    found = solved(memory)
    assert found.step_ms(StepLoad(prefill_tokens=100, decode_rows=4, kv_tokens=2000,
                                  chunk_context=20000)) == pytest.approx(500, rel=0.02)  # fmt: skip
    assert 300 < found.step_ms(replace(FULL, prefill_tokens=200)) < 3000


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(
            st.floats(0, 1000), st.floats(0, 64), st.floats(0, 1e5), st.floats(0, 1e6),
            st.floats(1e-4, 10),
        ),
        min_size=1,
        max_size=20,
    )
)  # fmt: skip
def test_coefficients_are_never_negative(seen: list[tuple[float, ...]]) -> None:
    made = moments(*[(p, d, k, x, t) for p, d, k, x, t in seen])
    memory = fit.learn(FitMemory(), made, fit.PREFILL, GENERIC.prefill)
    law = solved(memory).law
    assert min(law.coefficient(v) for v in fit.PREFILL) >= 0.0


def test_idle_windows_do_not_wash_out_what_is_known_of_full_steps() -> None:
    """Forgetting goes with new steps: an hour of single ones leaves the rest believed."""
    memory = FitMemory()
    for number in range(60):
        seen = Moments(tuple(20 * value for value in steps(CPU, 40, number, 0.05).sums))
        memory = fit.learn(memory, seen, fit.PREFILL, GENERIC.prefill)
    known = memory.steps
    single = (1.0, 1.0, 200.0, 1.0, 0.055)
    for _ in range(360):
        memory = fit.learn(memory, moments(single), fit.PREFILL, GENERIC.prefill)
    found = solved(memory)
    assert memory.steps > 0.6 * known
    assert found.step_ms(FULL) == pytest.approx(CPU.step_ms(FULL), rel=0.05)


def test_old_evidence_gives_way_to_new_under_load() -> None:
    memory = learned(CPU, windows=300)
    assert memory.steps == pytest.approx(40 / (1 - fit.FORGET_PER_WINDOW), rel=0.06)


def test_regressors_of_any_size_are_learned_alike() -> None:
    """Without scaling, tens of thousands of KV tokens would drown a dozen rows."""
    law = Law(base_ms=9.0, per_prefill_token_ms=0.06, per_decode_row_ms=0.9,
              per_kv_token_ms=1.2e-4, per_chunk_context_ms=3e-7)  # fmt: skip
    found = solved(learned(law, windows=30, noise=0.02)).law
    assert found.per_decode_row_ms == pytest.approx(0.9, rel=0.25)
    assert found.per_prefill_token_ms == pytest.approx(0.06, rel=0.1)


def test_the_prior_bounds_a_direction_that_is_never_excited() -> None:
    """Covariance cap: no load of decode rows ever came, so their price stays near the prior's."""
    memory = FitMemory()
    for number in range(200):
        chunk = 50.0 + number % 7 * 60
        seen = moments((chunk, 0.0, 0.0, 1e3, (30 + 0.1 * chunk) / 1e3))
        memory = fit.learn(memory, seen, fit.PREFILL, GENERIC.prefill)
    found, free = solved(memory), GENERIC.prefill.per_decode_row_ms
    assert 0.1 * free < found.law.per_decode_row_ms < 10 * free
    rows = StepLoad(prefill_tokens=100, decode_rows=10, chunk_context=1e3)
    assert 0.0 < found.relative_sd(rows) < 1.0


def replace_scale(law: Law, factor: float) -> Law:
    return Law(
        base_ms=factor * law.base_ms,
        per_prefill_token_ms=factor * law.per_prefill_token_ms,
        per_decode_row_ms=factor * law.per_decode_row_ms,
        per_kv_token_ms=factor * law.per_kv_token_ms,
        per_chunk_context_ms=factor * law.per_chunk_context_ms,
    )


@pytest.mark.parametrize(
    "strange",
    [
        {"information": (1.0,) * 6, "target": (1.0,) * 3},
        {"information": (1.0,) * 21, "target": (1.0,) * 6},
        {"target": ()},
        {"square": -1.0},
        {"steps": -1.0},
    ],
)
def test_evidence_of_other_variables_counts_as_none(strange: dict[str, Any]) -> None:
    """As an operator of another version, or somebody's hand, has left it in a status."""
    left = replace(learned(CPU), **strange)
    assert solved(left).law == solved(FitMemory()).law
    seen = steps(CPU, 40)
    assert fit.learn(left, seen, fit.PREFILL, GENERIC.prefill) == fit.learn(
        FitMemory(), seen, fit.PREFILL, GENERIC.prefill
    )
