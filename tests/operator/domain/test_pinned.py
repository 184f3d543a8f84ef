"""What is remembered of a fleet's start, and what is made of a status that says something else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline_operator.api.choice import RolloutStrategy
from paceline_operator.domain.pinned import (
    IMAGE_BEFORE,
    KEY,
    STARTUP_BEFORE,
    Pinned,
    Start,
    dump,
    inherited,
    load,
)

REPLACE, SURGE = RolloutStrategy.REPLACE, RolloutStrategy.SURGE
BEFORE = {"conditions": [{"type": "Ready"}], "memory": {"pilot": {}}}
"""A status of a version that remembered this on the Deployment."""


@pytest.mark.parametrize(
    "known",
    [
        Pinned(),
        Pinned(image="engine:1", startup="abc", strategy=RolloutStrategy.REPLACE),
        Pinned(image="engine:1"),
        Pinned(image="engine:1", startup="a", next_image="engine:2", next_startup="b"),
        Pinned(image="engine:1", startup="a", defaults=1),
        Pinned(
            image="engine:1", startup="a", next_image="engine:1", next_startup="b", next_defaults=2
        ),
    ],
)
def test_it_is_read_as_it_was_written(known: Pinned) -> None:
    assert load({"memory": {KEY: dump(known)}}) == known


@pytest.mark.parametrize(
    "status",
    [
        None,
        [],
        {"memory": None},
        {"memory": ["x"]},
        {"memory": {KEY: "engine:1"}},
        {"memory": {KEY: {"image": 7, "startup": {"a": 1}, "strategy": ["Replace"]}}},
        {"memory": {KEY: {"image": "", "strategy": "Sometimes"}}},
        {"memory": {KEY: {"defaults": "1", "nextDefaults": True}}},
        {"memory": {KEY: {"defaults": -1, "nextDefaults": 1.0}}},
    ],
)
def test_what_cannot_be_read_is_not_pinned(status: Any) -> None:
    assert load(status) == Pinned()


def deployment_before(
    *, manager: str = "paceline", operation: str = "Apply", lost: str = "", surge: int = 0
) -> dict[str, Any]:
    """A Deployment of that version, of which someone took one annotation, or the strategy."""
    annotations = {f"f:{each}": {} for each in (IMAGE_BEFORE, STARTUP_BEFORE) if each != lost}
    strategy = {"f:type": {}, "f:rollingUpdate": {"f:maxSurge": {}, "f:maxUnavailable": {}}}
    owned = {
        "f:metadata": {"f:annotations": annotations},
        "f:spec": {} if lost == "strategy" else {"f:strategy": strategy},
    }
    entry = {"manager": manager, "operation": operation, "fieldsV1": owned}
    return {
        "metadata": {
            "annotations": {IMAGE_BEFORE: "engine:0", STARTUP_BEFORE: "abc"},
            "managedFields": [{"manager": "other", "operation": "Update"}, entry],
        },
        "spec": {"strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": 1}}},
    }


@pytest.mark.parametrize(
    ("status", "deployment", "found"),
    [
        (BEFORE, deployment_before(), Pinned(image="engine:0", startup="abc", strategy=REPLACE)),
        (BEFORE, deployment_before(surge=1),
         Pinned(image="engine:0", startup="abc", strategy=SURGE)),
        (BEFORE, deployment_before(lost=IMAGE_BEFORE), Pinned(startup="abc", strategy=REPLACE)),
        (BEFORE, deployment_before(lost=STARTUP_BEFORE),
         Pinned(image="engine:0", strategy=REPLACE)),
        (BEFORE, deployment_before(lost="strategy"), Pinned(image="engine:0", startup="abc")),
        (BEFORE, deployment_before(manager="someone"), Pinned()),
        (BEFORE, deployment_before(operation="Update"), Pinned()),
        (BEFORE, {"metadata": {}, "spec": {}}, Pinned()),
        (BEFORE, None, Pinned()),
        ({}, deployment_before(), Pinned()),
        (None, deployment_before(), Pinned()),
        ({**BEFORE, "memory": {KEY: {"image": "engine:1"}}}, deployment_before(),
         Pinned(image="engine:1")),
        ({**BEFORE, "memory": {KEY: {}}}, deployment_before(), Pinned()),
    ],
    ids=["before", "with surge", "image taken", "hash taken", "strategy taken", "another's",
         "not applied", "no owners", "no fleet", "no status", "null", "of now", "nothing kept"],
)  # fmt: skip
def test_what_a_process_begins_with(status: Any, deployment: Any, found: Pinned) -> None:
    assert inherited(status, deployment) == found


ONE = Pinned(image="engine:1", startup="a", strategy=SURGE)
TWO = Pinned(image="engine:2", startup="b", defaults=1, strategy=SURGE)


@pytest.mark.parametrize(
    ("known", "wanted", "covers"),
    [
        (ONE, ONE, True),
        (ONE, TWO, False),
        (Pinned(), ONE, False),
        (ONE.expecting(TWO), TWO, True),
        (ONE.expecting(TWO), ONE, True),
        (TWO, Pinned(image="engine:2", startup="b", strategy=REPLACE), False),
        (Pinned(image="engine:1", strategy=SURGE), ONE, False),
        (replace(TWO, defaults=0), TWO, False),
        (replace(ONE, image="engine:2").expecting(TWO), TWO, True),
    ],
    ids=[
        "same",
        "new",
        "nothing",
        "ahead",
        "taken back",
        "strategy",
        "no hash",
        "arguments",
        "arguments ahead",
    ],
)
def test_what_the_next_process_would_choose_too(
    known: Pinned, wanted: Pinned, covers: bool
) -> None:
    assert known.covers(wanted) is covers


def test_what_was_refused_leaves_what_was_before() -> None:
    ahead = ONE.expecting(TWO)
    assert [ahead.start_for(startup) for startup in ("a", "b", "c", None)] == [
        Start(image="engine:1", defaults=0), Start(image="engine:2", defaults=1), None, None,
    ]  # fmt: skip
