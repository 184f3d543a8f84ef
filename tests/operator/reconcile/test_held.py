"""Scale-ins that were decided before nothing may leave any more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

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
    assert held_inwards(given, asked, 1) == 1
    assert held_inwards(given, frozen, 1) == 2
    by_hand = spec(**OFF, freezeWindows=[ALWAYS])
    assert held_inwards(given, by_hand, 1) == 1, "outside of Auto only users order"
