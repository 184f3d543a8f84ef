"""Scale-ins that were decided before nothing may leave any more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline_operator.api.choice import Mode
from paceline_operator.autopilot.vocabulary.decision import Knob
from paceline_operator.autopilot.vocabulary.memory import Awaited, Memory
from paceline_operator.domain import modes
from paceline_operator.reconcile.decide import decide
from paceline_operator.reconcile.held import held_inwards
from tests.operator.reconcile.test_decide import OFF, A, B, seen
from tests.support.fleet import NOW_S, PLATFORM, spec

AUTO: dict[str, Any] = {"minReplicas": 1, "maxReplicas": 4}


@pytest.mark.behaviour(
    "what was decided before a pause or a freeze window is not begun within it",
    report="a drain that waited for a pod began an hour after scaling had been paused",
)
@pytest.mark.parametrize(
    ("scaling", "target"),
    [({}, 1), ({"pause": "In"}, 2), ({"pause": "All"}, 2), ({"pause": "Out"}, 1),
     ({"pause": "In", "maxReplicas": 1}, 1)],
    ids=["nothing holds", "in", "all", "out", "above the maximum"],
)  # fmt: skip
def test_a_scale_in_that_has_not_begun_waits_while_scaling_is_paused(
    scaling: dict[str, Any], target: int
) -> None:
    asked = spec(scaling={**AUTO, **scaling}, tuning={"mode": "Off"})
    marked = replace(A, draining_since_s=NOW_S - 5)
    plan = decide(seen(spec=asked, target=1, pods=(marked, B)), PLATFORM, is_due=False)
    assert plan.target == target
    assert plan.moves.undo == ((marked,) if target == 2 else ())


ALWAYS = {"name": "always", "start": "* * * * *", "durationSeconds": 3600, "holds": "In"}


def test_nor_within_a_freeze_window() -> None:
    asked = spec(scaling=AUTO, tuning={"mode": "Off"})
    frozen = spec(scaling=AUTO, tuning={"mode": "Off"}, freezeWindows=[ALWAYS])
    given = seen(spec=asked, target=1)
    assert held_inwards(given, asked, 1, Memory()) is None
    held = held_inwards(given, frozen, 1, Memory())
    assert held is not None
    assert held.target == 2
    assert 'replicas stay 2: moves are frozen by the window "always"' in held.message
    by_hand = spec(**OFF, freezeWindows=[ALWAYS])
    found = held_inwards(given, by_hand, 1, Memory())
    assert found is None, "outside of Auto only users order"


@pytest.mark.behaviour(
    "a scale-in that was decided before the installation allows no moves is taken back",
    report="a pod that drained while the operator restarted with maxMode Recommend left anyway",
)
@pytest.mark.parametrize("most", [Mode.RECOMMEND, Mode.OFF])
@pytest.mark.parametrize(
    ("since_s", "target"),
    [(None, 2), (NOW_S - 60, 2), (NOW_S - 9000, 1)],
    ids=["first seen", "from before", "ordered since"],
)
def test_nor_under_the_brake_but_by_an_order(
    most: Mode, since_s: float | None, target: int
) -> None:
    asked = spec(scaling=AUTO, tuning={"mode": "Off"}, replicas=1)
    memory = Memory(manual_replicas=1, manual_since_s=NOW_S - 9000, capped_since_s=since_s)
    given = seen(
        spec=modes.capped(asked, most),
        braked=modes.braked(asked, most),
        target=1,
        pods=(A, replace(B, draining_since_s=NOW_S - 30)),
        memory=memory,
    )
    assert decide(given, PLATFORM, is_due=False).target == target
    by_hand = spec(scaling={"mode": "Recommend"}, replicas=1)
    assert not modes.braked(by_hand, most), "there users order as ever"


def test_nothing_follows_from_a_scale_in_that_is_taken_back() -> None:
    """Else demand that comes back would be a regret, and new replicas would wait for it."""
    asked = spec(scaling={**AUTO, "pause": "In"}, tuning={"mode": "Off"})
    moved = {
        each.value: Awaited(knob=each.value, moved_at_s=NOW_S - 20, after=1, due_s=NOW_S + 100)
        for each in (Knob.REPLICAS, Knob.BUDGET)
    }
    memory = Memory(
        scaled_in_at_s=NOW_S - 20,
        scaled_in_from=2,
        scaled_in_rps=1.0,
        awaited=tuple(moved.values()),
    )
    marked = replace(A, draining_since_s=NOW_S - 5)
    plan = decide(
        seen(spec=asked, target=1, pods=(marked, B), memory=memory), PLATFORM, is_due=False
    )
    assert (plan.memory.scaled_in_from, plan.memory.scaled_in_rps) == (0, 0.0)
    assert plan.memory.awaited == (moved[Knob.BUDGET.value],)
    assert plan.held is not None
    assert plan.held.message == (
        "The scale-in to 1 is taken back, replicas stay 2: scaling is paused"
    )
