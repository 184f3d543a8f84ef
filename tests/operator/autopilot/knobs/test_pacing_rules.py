"""When engines are told to size each step themselves, and for which step time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline_operator.api.v1alpha1 import Mode
from paceline_operator.autopilot import pilot
from paceline_operator.autopilot.vocabulary.decision import Reason, SetTunables, Tick
from paceline_operator.autopilot.vocabulary.fleet import Tunables
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.policy import Policy
from paceline_operator.autopilot.vocabulary.window import StepClass
from tests.operator.autopilot.build import auto, fleet, moments, window

NOW = 1000.0
CEILING = 2048


def asked(policy: Policy, *, margin: float = 0.10, **knobs: Any) -> Tick:
    given: dict[str, Any] = {"max_num_batched_tokens": 512, "max_num_running_seqs": 64, **knobs}
    return pilot.step(policy, fleet(desired_tunables=Tunables(**given)), Memory(margin=margin), NOW)


def pushed(tick: Tick) -> Tunables | None:
    found = [each.tunables for each in tick.actions if isinstance(each, SetTunables)]
    return found[-1] if found else None


@pytest.mark.parametrize(
    ("margin", "itl_ms", "target_ms"), [(0.10, 100, 90.0), (0.25, 100, 75.0), (0.05, 40, 38.0)]
)
def test_the_target_is_the_objective_less_the_margin_and_the_budget_its_ceiling(
    margin: float, itl_ms: int, target_ms: float
) -> None:
    tick = asked(auto(itl_ms=itl_ms, is_paced=True), margin=margin)
    assert pushed(tick) == Tunables(
        max_num_batched_tokens=CEILING, max_num_running_seqs=64, step_time_target_ms=target_ms
    )
    assert tick.decisions[0].reason is Reason.STEP_TIME_TARGET


@pytest.mark.parametrize("known_ms", [90.0, 91.5, 88.5])
def test_what_is_near_enough_is_left_alone(known_ms: float) -> None:
    paced = {"max_num_batched_tokens": CEILING, "step_time_target_ms": known_ms}
    assert pushed(asked(auto(is_paced=True), **paced)) is None


@pytest.mark.parametrize("known_ms", [92.5, 80.0, None])
def test_what_is_not_is_pushed(known_ms: float | None) -> None:
    paced = {"max_num_batched_tokens": CEILING, "step_time_target_ms": known_ms}
    found = pushed(asked(auto(is_paced=True), **paced))
    assert found is not None
    assert found.step_time_target_ms == 90.0


@pytest.mark.parametrize("policy", [auto(), auto(itl_ms=None, is_paced=True)])
def test_where_the_budget_does_it_a_target_is_taken_back(policy: Policy) -> None:
    found = pushed(asked(policy, step_time_target_ms=90.0))
    assert found is not None
    assert found.step_time_target_ms is None


def test_by_itself_no_engine_is_told_a_step_time() -> None:
    assert pushed(asked(auto())) is None


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.RECOMMEND])
def test_only_where_the_knobs_are_the_autopilots(mode: Mode) -> None:
    assert pushed(asked(auto(is_paced=True, tuning_mode=mode))) is None


def test_no_move_loses_the_target() -> None:
    """Here the ceiling of running sequences has been lowered."""
    policy = replace(auto(is_paced=True), max_num_seqs=32)
    found = pushed(asked(policy, step_time_target_ms=90.0))
    assert found is not None
    assert (found.max_num_running_seqs, found.step_time_target_ms) == (32, 90.0)


@pytest.mark.parametrize(
    ("known_ms", "alone_ms", "target_ms"),
    [(90.0, 99.0, 90.0), (90.0, 101.0, None), (None, 94.0, 90.0), (None, 96.0, None)],
)
def test_a_target_that_one_sequence_alone_misses_is_not_chased(
    known_ms: float | None, alone_ms: float, target_ms: float | None
) -> None:
    """An engine would shorten prompts for it in vain; it is followed again once clearly met."""
    decode = [(0.0, 1.0, 300.0, 0.0, alone_ms / 1e3)] * 100
    slices = (window(steps={StepClass.DECODE_ONLY: moments(*decode)}),)
    knobs = Tunables(
        max_num_batched_tokens=CEILING, max_num_running_seqs=64, step_time_target_ms=known_ms
    )
    seen = fleet(desired_tunables=knobs, slices=slices)
    tick = pilot.step(auto(is_paced=True), seen, Memory(margin=0.10), NOW)
    found = pushed(tick) or knobs
    assert found.step_time_target_ms == target_ms
    if known_ms is not None and target_ms is None:
        assert found.max_num_batched_tokens < CEILING
