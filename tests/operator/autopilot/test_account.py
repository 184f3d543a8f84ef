"""What decisions tell beside their words: options, next steps, and what moves brought."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline_operator.autopilot.replicas.recommendation import peaks_ahead
from paceline_operator.autopilot.situation.situation import understand
from paceline_operator.autopilot.vocabulary.decision import Action, Decision, Knob, Reason
from paceline_operator.autopilot.vocabulary.memory import (
    Memory,
    Recommendation,
    dump_memory,
    load_memory,
)
from paceline_operator.autopilot.vocabulary.policy import Policy
from tests.operator.autopilot.build import auto, fleet
from tests.support.fleet_plant import A100_8B, FleetPlant, Shape

NOW_S = 1000.0


def ahead(*recommended: tuple[float, int], since_s: float | None = 0.0) -> list[tuple[float, int]]:
    kept = tuple(Recommendation(time_s=at_s, replicas=n) for at_s, n in recommended)
    memory = Memory(recommended=kept, recommending_since_s=since_s)
    return list(peaks_ahead(understand(auto(), fleet(), memory, NOW_S), memory))


@pytest.mark.parametrize(
    ("recommended", "since_s", "falls"),
    [
        ([(NOW_S, 2)], 0.0, [(NOW_S, 2)]),
        ([(960.0, 4), (980.0, 3), (NOW_S, 1)], 0.0, [(NOW_S, 4), (1020.0, 3), (1040.0, 1)]),
        ([(960.0, 4), (NOW_S, 1)], 970.0, [(1030.0, 4), (1030.0, 1)]),
        ([(NOW_S, 1)], None, [(1060.0, 1)]),
        ([], 0.0, [(NOW_S, 0)]),
    ],
)
def test_the_peak_falls_as_the_down_window_moves_on(
    recommended: list[tuple[float, int]], since_s: float | None, falls: list[tuple[float, int]]
) -> None:
    """The down window is 60 s."""
    assert ahead(*recommended, since_s=since_s) == falls


def surge_of(policy: Policy) -> FleetPlant:
    return FleetPlant(
        policy=policy,
        step_time=A100_8B,
        rate=lambda t: 25.0 if t < 120 else 2.0,
        shape=Shape(prompt=(200, 1500), output=(50, 250)),
        replicas=1,
    )


def surge() -> FleetPlant:
    plant = surge_of(auto(batch_max=1024))
    plant.run(400)
    return plant


@pytest.fixture(scope="module")
def plant() -> FleetPlant:
    return surge()


def about(plant: FleetPlant, knob: Knob) -> list[Decision]:
    return [each for each in plant.decisions if each.knob is knob]


def test_a_scale_in_comes_when_it_was_foretold(plant: FleetPlant) -> None:
    """Whenever a moment was told, none came before it; under steady load it comes right then."""
    foretold: list[tuple[float, float]] = []
    for decision in about(plant, Knob.REPLICAS):
        steps = [s for s in decision.next_steps if s.action is Action.SCALE_IN and s.earliest_s]
        if decision.action is Action.SCALE_IN and foretold:
            told_s, earliest_s = foretold[-1]
            assert decision.time_s >= earliest_s - 0.5
            assert decision.time_s <= earliest_s + 20.0, f"told at {told_s}"
        foretold = [*foretold, *((decision.time_s, s.earliest_s or 0.0) for s in steps)]
    assert len([d for d in plant.moves() if d.action is Action.SCALE_IN]) >= 2


def test_one_candidate_is_chosen_and_it_is_where_the_knob_is(plant: FleetPlant) -> None:
    seen = [d for d in plant.decisions if d.considered]
    assert len(seen) > 50
    for decision in seen:
        values = [each.value for each in decision.considered]
        assert values == sorted(set(values))
        (chosen,) = (each for each in decision.considered if each.chosen)
        is_for_all = decision.applied and decision.guard is not Reason.CANARY
        assert chosen.value == (decision.after if is_for_all else decision.before)
        assert chosen.reason is decision.reason


def test_a_budget_that_breaks_the_target_is_rejected_for_that(plant: FleetPlant) -> None:
    for decision in about(plant, Knob.BUDGET):
        for each in decision.considered:
            allowed, step = each.figures.get("allowedStepMs"), each.figures["fullStepMs"]
            assert isinstance(allowed, float)
            assert isinstance(step, float)
            if not each.chosen:
                assert (each.reason is Reason.ABOVE_MODEL_CAP) == (step > allowed)


def test_every_move_is_looked_back_at_once(plant: FleetPlant) -> None:
    seen = [(o.knob, o.moved_at_s) for tick in plant.ticks for o in tick.observed]
    moved = [(d.knob, d.time_s) for d in plant.moves() if d.expected is not None]
    assert len(set(seen)) == len(seen)
    assert set(seen) <= set(moved)
    awaited = [(Knob(each.knob), each.moved_at_s) for each in plant.memory.awaited]
    for knob, moved_at_s in set(moved) - set(seen) - set(awaited):
        # The next move came before anything was measured of this one.
        later = [at_s for other, at_s in moved if other is knob and at_s > moved_at_s]
        assert min(later) - moved_at_s <= 30.0
    assert len(seen) >= len(moved) / 2


def test_steps_take_what_the_model_of_then_gives(plant: FleetPlant) -> None:
    found = [o.figures for tick in plant.ticks for o in tick.observed]
    told = [f for f in found if "promptStepMeanMs" in f and f["promptSteps"]]
    assert told
    last = told[-1]
    assert last["promptStepMeanMs"] == pytest.approx(last["promptStepMeanPredictedMs"], rel=0.1)


def test_what_is_awaited_survives_a_restart(plant: FleetPlant) -> None:
    moved = next(tick.memory for tick in plant.ticks if tick.memory.awaited)
    assert load_memory(dump_memory(moved)).awaited == moved.awaited
    assert replace(moved, awaited=()) != moved


def paced() -> FleetPlant:
    plant = surge_of(auto(batch_max=1024, is_paced=True))
    plant.run(60)
    return plant


def test_of_a_step_time_is_told_what_it_leaves_and_what_moves_it() -> None:
    plant = paced()
    first, *_, last = about(plant, Knob.STEP_TIME)
    assert (first.before, first.after, first.applied) == (0, 90, True)
    assert first.action is Action.RAISE
    assert first.expected is not None
    assert first.expected.figures["stepTimeTargetMs"] == 90
    (candidate,) = last.considered
    assert candidate.chosen
    assert candidate.value == last.after
    lower, higher = last.next_steps
    assert (lower.action, higher.action) == (Action.LOWER, Action.RAISE)
    assert "60 ms at least" in lower.message
    assert "95 ms at most" in higher.message
    assert about(plant, Knob.BUDGET) == []
