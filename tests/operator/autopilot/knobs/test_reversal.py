"""What was moved for a time only does not outlive what could judge it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_operator.api.v1alpha1 import Mode
from paceline_operator.autopilot import pilot
from paceline_operator.autopilot.knobs import loop as knob_loop
from paceline_operator.autopilot.knobs.loop import KNOB_EVERY_S
from paceline_operator.autopilot.knobs.reversal import BLIND_S, reversal
from paceline_operator.autopilot.knobs.trial_rules import LONGEST_S
from paceline_operator.autopilot.situation.situation import Situation, understand
from paceline_operator.autopilot.vocabulary.decision import Reason, SetTunables
from paceline_operator.autopilot.vocabulary.fleet import (
    Allowance,
    DataClass,
    FleetObservation,
    PodObservation,
    Trial,
    Tunables,
)
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.policy import Freeze, Policy
from paceline_operator.autopilot.vocabulary.recurrence import Recurrence
from paceline_operator.autopilot.vocabulary.window import Window
from tests.operator.autopilot.build import auto, fleet, pod
from tests.operator.autopilot.knobs.test_trial_rules import LEARNED, share, slice_at

TICK_S = 5.0
BEGIN_S = 100_000.0
AGREED = Tunables(max_num_batched_tokens=512, max_num_running_seqs=64)
SQUEEZED = replace(AGREED, max_num_running_seqs=16)
ALWAYS = (Freeze(name="launch", recurrence=Recurrence(start="* * * * *", duration_s=3600.0)),)


@dataclass(frozen=True, kw_only=True)
class Regime:
    """Some ticks alike."""

    ticks: int
    data: DataClass | None = DataClass.FRESH
    goals: tuple[int | None, int | None] = (1000, 100)
    mode: Mode = Mode.AUTO
    is_frozen: bool = False
    is_spent: bool = False
    full_steps: int = 0

    @property
    def policy(self) -> Policy:
        freezes = ALWAYS if self.is_frozen else ()
        return auto(*self.goals, tuning_mode=self.mode, freezes=freezes)

    @property
    def can_judge(self) -> bool:
        return self.data is DataClass.FRESH and self.goals != (None, None)


regimes = st.builds(
    Regime,
    ticks=st.integers(1, 20),
    data=st.sampled_from([*DataClass, None]),
    goals=st.sampled_from([(1000, 100), (1000, None), (None, None)]),
    mode=st.sampled_from([Mode.AUTO, Mode.AUTO, Mode.AUTO, Mode.RECOMMEND, Mode.OFF]),
    is_frozen=st.booleans(),
    is_spent=st.booleans(),
    full_steps=st.sampled_from([0, 10]),
)


class Course:
    """A fleet of three pods, and an operator that carries out what the law says.

    Where tuning is not `Auto`, it takes back by itself what the memory knows no more of.
    """

    def __init__(self, memory: Memory, knobs: Tunables) -> None:
        self.now_s = BEGIN_S
        self.memory, self.knobs = memory, knobs
        self.slices: tuple[Window, ...] = ()
        self.blind_s = 0.0

    def tick(self, regime: Regime) -> None:
        self.now_s += TICK_S
        self.blind_s = 0.0 if regime.can_judge else self.blind_s + TICK_S
        if regime.data is DataClass.FRESH:
            tried, others = share(1.0, regime.full_steps), share(1.0, 0, budget=512)
            parts = {"uid-1": tried, "uid-2": others, "uid-3": others}
            self.slices = (*self.slices[-20:], slice_at(self.now_s - TICK_S, parts))
        tick = pilot.step(regime.policy, self.seen(regime), self.memory, self.now_s)
        self.memory = tick.memory
        for action in tick.actions:
            if isinstance(action, SetTunables):
                self.knobs = action.tunables
                assert action.trial == self.memory.trial
        if regime.mode is not Mode.AUTO and self.memory.squeezed_seqs is None:
            self.knobs = replace(self.knobs, max_num_running_seqs=64)

    def seen(self, regime: Regime) -> FleetObservation:
        return fleet(
            pods=tuple(self.pod(n, regime.data) for n in (1, 2, 3) if regime.data),
            slices=self.slices,
            now_s=self.now_s,
            desired_tunables=self.knobs,
            allowance=Allowance(knobs=not regime.is_spent),
        )

    def pod(self, number: int, data: DataClass | None) -> PodObservation:
        base, trial = pod(number), self.memory.trial
        assert base.tunables is not None
        budget = self.knobs.max_num_batched_tokens
        if trial is not None and trial.uid == base.uid:
            budget = trial.budget
        return pod(number, data=data, tunables=replace(base.tunables, effective=budget))


LONGEST_TRIAL_S = LONGEST_S + 2 * KNOB_EVERY_S + TICK_S


@pytest.mark.parametrize("probes", [False, True])
@settings(max_examples=15, deadline=None)
@given(st.lists(regimes, min_size=1, max_size=6))
def test_no_trial_outlives_its_longest_time(probes: bool, course: list[Regime]) -> None:
    trial = Trial(uid="uid-1", budget=640, probes=probes)
    made = Course(replace(LEARNED, trial=trial, trial_at_s=BEGIN_S, raised_at_s=BEGIN_S), AGREED)
    for regime in course:
        for _ in range(regime.ticks):
            made.tick(regime)
            if made.memory.trial is not None:
                assert made.now_s - made.memory.trial_at_s <= LONGEST_TRIAL_S


@settings(max_examples=15, deadline=None)
@given(st.lists(regimes, min_size=1, max_size=6))
def test_no_squeeze_outlives_what_judges_it(course: list[Regime]) -> None:
    memory = replace(LEARNED, squeezed_seqs=64, squeezed_replicas=3, lowered_at_s=BEGIN_S)
    made = Course(memory, SQUEEZED)
    for regime in course:
        for _ in range(regime.ticks):
            made.tick(regime)
            if made.blind_s > BLIND_S + 2 * KNOB_EVERY_S + TICK_S:
                assert made.memory.squeezed_seqs is None
            if made.memory.squeezed_seqs is None:
                assert made.knobs.max_num_running_seqs == 64


def situation(policy: Policy, data: DataClass = DataClass.FRESH, **memory: object) -> Situation:
    seen = fleet(
        pods=tuple(pod(n, data=data) for n in (1, 2, 3)), now_s=BEGIN_S, desired_tunables=SQUEEZED
    )
    return understand(policy, seen, replace(LEARNED, **memory), BEGIN_S)  # type: ignore[arg-type]


TRIED = {"trial": Trial(uid="uid-1", budget=640), "trial_at_s": BEGIN_S - 20}
HELD = {"squeezed_seqs": 64, "squeezed_replicas": 3, "lowered_at_s": BEGIN_S}


@pytest.mark.parametrize("memory", [TRIED, HELD], ids=["a trial", "a squeeze"])
@pytest.mark.parametrize("frozen", [(), ALWAYS], ids=["any time", "in a freeze window"])
def test_without_an_objective_it_ends_at_once(
    memory: dict[str, object], frozen: tuple[Freeze, ...]
) -> None:
    outcome = knob_loop.run(situation(auto(None, None, freezes=frozen), **memory))
    (action,) = outcome.actions
    assert isinstance(action, SetTunables)
    assert (action.trial, outcome.memory.trial, outcome.memory.squeezed_seqs) == (None, None, None)
    assert action.tunables == (SQUEEZED if memory is TRIED else AGREED)
    assert outcome.decisions[0].applied


@pytest.mark.parametrize("data", [DataClass.STALE, DataClass.ABSENT])
def test_a_moment_without_measurements_ends_nothing(data: DataClass) -> None:
    for memory in (TRIED, HELD):
        assert reversal(situation(auto(), data, **memory)) is None
        assert knob_loop.run(situation(auto(), data, **memory)).memory.blind_since_s == BEGIN_S


def test_a_squeeze_that_is_measured_is_left_to_the_rules() -> None:
    blind_lately = {**HELD, "blind_since_s": BEGIN_S - 600}
    outcome = knob_loop.run(situation(auto(), DataClass.FRESH, **blind_lately))
    assert (outcome.actions, outcome.memory.blind_since_s) == ((), None)
    back = reversal(situation(auto(), DataClass.STALE, **blind_lately))
    assert back is not None
    assert (back.reason, back.after) == (Reason.CAPACITY_ARRIVED, 64)
    assert back.message == "Running sequences back to 64: nothing was measured for 60 s."
