from __future__ import annotations

from typing import Any

import pytest

from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.simulator.what_if.fleet import fleet_config
from paceline_operator.simulator.what_if.manual_replicas import kept, without_past_floor
from tests.operator.simulator.what_if.build import facts, spec

BY_HAND: tuple[dict[str, Any], ...] = (
    {"scaling": {"mode": "Off"}},
    {"scaling": {"mode": "Recommend", "maxReplicas": 8}},
    {"scaling": {}},
)
NOW_S = 10_000.0


@pytest.mark.parametrize("more", BY_HAND)
def test_replicas_that_are_left_out_are_those_of_the_live_object(more: dict[str, Any]) -> None:
    found, (note,) = kept(spec(**more), spec(replicas=4, **more))
    assert fleet_config(found, facts(), running=4).initial_replicas == 4
    assert note.startswith("spec.replicas: left out, so the live object's 4 stays and is played")


@pytest.mark.parametrize("more", BY_HAND)
@pytest.mark.parametrize("replicas", [1, 2])
def test_replicas_that_are_named_are_played(more: dict[str, Any], replicas: int) -> None:
    found, notes = kept(spec(replicas=replicas, **more), spec(replicas=4, **more))
    assert (found.replicas, notes) == (replicas, ())


def test_where_nothing_differs_nothing_is_said() -> None:
    assert kept(spec(), spec()) == (spec(), ())


@pytest.mark.parametrize(
    ("given", "memory", "is_over"),
    [
        ({"replicas": 3}, Memory(manual_replicas=3, manual_since_s=NOW_S - 1800), True),
        ({"replicas": 3}, Memory(manual_replicas=3, manual_since_s=NOW_S - 1799), False),
        ({"replicas": 3}, Memory(manual_replicas=2, manual_since_s=0.0), False),
        ({"replicas": 3}, Memory(), False),
        (
            {"replicas": 3, "scaling": {"maxReplicas": 4, "overrideSeconds": 9000}},
            Memory(manual_replicas=3, manual_since_s=NOW_S - 1800),
            False,
        ),
        (
            {"replicas": 3, "scaling": {"mode": "Off"}},
            Memory(manual_replicas=3, manual_since_s=0.0),
            False,
        ),
    ],
)
def test_a_floor_whose_time_is_over_is_not_played_anew(
    given: dict[str, Any], memory: Memory, is_over: bool
) -> None:
    found, notes = without_past_floor(spec(**given), memory, NOW_S)
    assert found.replicas == (1 if is_over else 3)
    assert len(notes) == is_over
    assert fleet_config(found, facts()).initial_replicas == (1 if is_over else 3)


def test_a_floor_below_the_minimum_is_none_to_tell_of() -> None:
    given = spec(replicas=2, scaling={"minReplicas": 2, "maxReplicas": 4})
    memory = Memory(manual_replicas=2, manual_since_s=0.0)
    assert without_past_floor(given, memory, NOW_S) == (given, ())
