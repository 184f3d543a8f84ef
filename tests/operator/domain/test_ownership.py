from __future__ import annotations

from typing import Any

import pytest

from paceline_operator.domain.ownership import (
    WINDOW_S,
    Write,
    autoscaler_of,
    fighter,
    foreign_owner,
    is_claimed,
    noted,
)
from tests.support.fleet import NOW_S, moment


def deployment(*owners: tuple[str, float, bool]) -> dict[str, Any]:
    return {
        "metadata": {
            "managedFields": [
                {
                    "manager": manager,
                    "time": moment(time_s),
                    "fieldsV1": {"f:spec": {"f:replicas": {}} if owns else {"f:paused": {}}},
                }
                for manager, time_s, owns in owners
            ]
        }
    }


@pytest.mark.parametrize(
    ("owners", "found"),
    [
        ((), None),
        ((("paceline", 1.0, True),), None),
        ((("kubectl", 1.0, False),), None),
        ((("kubectl", 1.0, True),), "kubectl"),
        ((("paceline", 1.0, True), ("kubectl", 2.0, True)), None),
        ((("a", 1.0, True), ("b", 2.0, True)), "b"),
    ],
    ids=["nobody", "we", "other field", "kubectl", "shared value", "newest"],
)
def test_foreign_owner(owners: tuple[tuple[str, float, bool], ...], found: str | None) -> None:
    assert foreign_owner(deployment(*owners)) == found


def test_replicas_are_claimed_once_anybody_owns_them() -> None:
    assert not is_claimed(deployment(("kubectl", 1.0, False)))
    assert is_claimed(deployment(("paceline", 1.0, True)))


def test_a_write_is_new_once() -> None:
    known, new = noted((), "kubectl", 4, NOW_S)
    assert new == Write("kubectl", NOW_S, 4)
    assert noted(known, "kubectl", 4, NOW_S + 5) == (known, None)


def test_another_value_is_another_write() -> None:
    known, _ = noted((), "kubectl", 4, NOW_S)
    _, new = noted(known, "kubectl", 5, NOW_S + 5)
    assert new == Write("kubectl", NOW_S + 5, 5)


def test_the_same_value_again_is_new_after_the_operator_wrote() -> None:
    known, _ = noted((), "kubectl", 4, NOW_S)
    known, new = noted(known, None, 2, NOW_S + 5)
    assert new is None
    assert not known[-1].in_force
    _, new = noted(known, "kubectl", 4, NOW_S + 10)
    assert new == Write("kubectl", NOW_S + 10, 4)


def test_a_write_in_force_is_never_forgotten_because_it_would_look_new_again() -> None:
    known, _ = noted((), "kubectl", 4, NOW_S)
    assert noted(known, "kubectl", 4, NOW_S + 10 * WINDOW_S) == (known, None)


def test_an_overwritten_write_is_forgotten_in_time() -> None:
    known = (Write("kubectl", NOW_S - 3 * WINDOW_S, 4, in_force=False),)
    assert noted(known, None, 2, NOW_S) == ((), None)


@pytest.mark.parametrize(
    ("writes", "who"),
    [
        ([("kubectl", -100)], None),
        ([("kubectl", -100), ("kubectl", -10)], "kubectl"),
        ([("kubectl", -100), ("argo", -10)], None),
        ([("kubectl", -700), ("kubectl", -10)], None),
        ([("kubectl", -1000), ("kubectl", -601)], None),
        ([("kubectl", -1000), ("kubectl", -599)], "kubectl"),
    ],
    ids=["one", "two", "two managers", "far apart", "ten minutes gone", "nearly gone"],
)
def test_two_writes_by_one_manager_are_a_fight(
    writes: list[tuple[str, float]], who: str | None
) -> None:
    assert fighter([Write(m, NOW_S + t, 4) for m, t in writes], NOW_S) == who


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ({"kind": "Deployment", "name": "chat"}, "HorizontalPodAutoscaler h"),
        ({"name": "chat"}, "HorizontalPodAutoscaler h"),
        ({"kind": "Deployment", "name": "other"}, None),
        ({"kind": "InferenceService", "name": "chat"}, None),
    ],
    ids=["ours", "kind left out", "another", "the service itself"],
)
def test_autoscaler_on_the_deployment(target: dict[str, str], found: str | None) -> None:
    item = {
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": {"scaleTargetRef": target},
    }
    assert autoscaler_of([item], "chat") == found
