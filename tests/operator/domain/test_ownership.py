from __future__ import annotations

from typing import Any

import pytest

from paceline_operator.domain.ownership import (
    WINDOW_S,
    Write,
    autoscaler_of,
    fighter,
    foreign_write,
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
        ((("kubectl", 1.0, True),), Write("kubectl", 1.0)),
        ((("paceline", 1.0, True), ("kubectl", 2.0, True)), None),
        ((("a", 1.0, True), ("b", 2.0, True)), Write("b", 2.0)),
    ],
    ids=["nobody", "we", "other field", "kubectl", "shared value", "newest"],
)
def test_foreign_write(owners: tuple[tuple[str, float, bool], ...], found: Write | None) -> None:
    assert foreign_write(deployment(*owners)) == found


def test_a_write_is_noted_once() -> None:
    write = Write("kubectl", NOW_S)
    assert noted(noted((), write, NOW_S), write, NOW_S) == (write,)


def test_the_newest_write_is_never_forgotten_because_it_would_look_new_again() -> None:
    old = Write("kubectl", NOW_S - 10 * WINDOW_S)
    assert noted((old,), None, NOW_S) == (old,)


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
    assert fighter([Write(m, NOW_S + t) for m, t in writes], NOW_S) == who


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
