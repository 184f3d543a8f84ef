"""A restart is told from one that was there before."""

from typing import Any

import pytest

from e2e.smoke.pods import Container, containers, has_restarted, ready_anew

BEFORE = (Container("a", "engine", 3, ready=True), Container("b", "engine", 0, ready=True))


def with_first(restarts: int, *, ready: bool) -> tuple[Container, ...]:
    return (Container("a", "engine", restarts, ready), BEFORE[1])


@pytest.mark.parametrize(
    ("now", "restarted", "ready"),
    [
        (BEFORE, False, False),
        (with_first(4, ready=False), True, False),
        (with_first(4, ready=True), True, True),
        (BEFORE[:1], True, False),
        ((*BEFORE, Container("c", "engine", 0, ready=False)), False, False),
        ((*BEFORE, Container("c", "engine", 0, ready=True)), False, True),
        ((), True, False),
    ],
    ids=["as before", "started", "ready", "a pod gone", "new pod", "new pod ready", "all gone"],
)
def test_only_what_was_started_since_counts(
    now: tuple[Container, ...], *, restarted: bool, ready: bool
) -> None:
    assert has_restarted(BEFORE, now) is restarted
    assert ready_anew(BEFORE, now) is ready


def test_containers_are_read_as_the_server_writes_them() -> None:
    pods: list[dict[str, Any]] = [
        {
            "metadata": {"uid": "a"},
            "status": {"containerStatuses": [{"name": "engine", "restartCount": 3, "ready": True}]},
        },
        {"metadata": {"uid": "new"}, "status": {}},
    ]
    assert containers(pods) == BEFORE[:1]
