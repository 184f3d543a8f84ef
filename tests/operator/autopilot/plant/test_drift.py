"""A plant that is no longer what the model says: noticed, and told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline_operator.autopilot.learning import learned
from paceline_operator.autopilot.notices import noticed
from paceline_operator.autopilot.plant.drift import HALF_LIFE_S, MISMATCH_S, compared
from paceline_operator.autopilot.plant.plant import laws
from paceline_operator.autopilot.plant.prior import GENERIC
from paceline_operator.autopilot.vocabulary.decision import Reason
from paceline_operator.autopilot.vocabulary.memory import FitMemory, Memory
from paceline_operator.autopilot.vocabulary.window import merge
from tests.operator.autopilot.build import auto
from tests.operator.autopilot.plant.test_pace import seen, situation, slice_of, uids, watched


@pytest.mark.parametrize("factor", [1.5, 0.6])
def test_the_factor_follows_what_steps_take_with_a_half_life_of_two_minutes(factor: float) -> None:
    memory = watched(uids(1.0, 1.0), 60)
    known = laws(memory, GENERIC)
    for turn in range(60, 60 + int(HALF_LIFE_S / 5)):
        memory = compared(memory, slice_of(uids(factor, factor), turn), known)
    assert memory.step_factor == pytest.approx((1.0 + factor) / 2, rel=0.02)


def test_the_factor_keeps_within_its_limits() -> None:
    memory = watched(uids(1.0), 60)
    known = laws(memory, GENERIC)
    for turn in range(60, 120):
        memory = compared(memory, slice_of(uids(9.0), turn), known)
    assert memory.step_factor == 2.0
    assert memory.clipped_since_s is not None


def test_a_few_steps_say_nothing_about_the_model() -> None:
    memory = watched(uids(1.0), 60)
    few = replace(slice_of(uids(3.0), 60), steps={})
    assert compared(memory, few, laws(memory, GENERIC)) is memory
    assert compared(Memory(), slice_of(uids(3.0), 0), laws(Memory(), GENERIC)) == Memory()


def test_a_factor_that_stays_at_its_limit_ends_the_model() -> None:
    memory = replace(
        watched(uids(1.0, 1.0), 60), step_factor=2.0, clipped_since_s=1300.0 - MISMATCH_S + 10
    )
    known = laws(memory, GENERIC)
    wrong = compared(memory, slice_of(uids(3.0, 3.0), 60), known)
    assert (wrong.step_factor, wrong.mismatched_at_s) == (2.0, 0.0)
    ended = compared(wrong, slice_of(uids(3.0, 3.0), 62), known)
    assert (ended.step_factor, ended.mismatched_at_s) == (1.0, 1315.0)
    assert ended.prefill_fit == ended.decode_fit == FitMemory()
    right = compared(wrong, slice_of(uids(1.0, 1.0), 62), known)
    assert right.clipped_since_s is None


def test_the_end_of_a_model_is_told_once() -> None:
    s = situation(Memory(mismatched_at_s=1000.0))
    (notice,) = noticed(Memory(), s)
    assert notice.reason is Reason.MODEL_MISMATCH
    assert noticed(s.memory, s) == ()


def test_slices_of_one_observation_are_judged_one_by_one() -> None:
    memory = watched(uids(1.0, 1.0), 30)
    slices = tuple(slice_of(uids(1.0, 1.0), n) for n in range(30, 33))
    at_once = watched(uids(1.0, 1.0), 3, memory, first=30)
    assert merge(slices).moments().count == 3 * slices[0].moments().count
    found = seen(slices, 2)
    assert learned(auto(), found, memory, found.now_s) == at_once
