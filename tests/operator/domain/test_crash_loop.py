"""When pods keep ending: by their status alone, so that a restarted operator says the same."""

from __future__ import annotations

from typing import Any

import pytest

from paceline_operator.domain.crash_loop import found_in, marked, remembered
from paceline_operator.domain.pods import Problem, read_pods
from tests.support.fleet import NOW_S, moment, pod_object

LOG = "INFO: 3 requests run\nparallel worker lost\n"


def ended(ran_s: float, ago_s: float, **fields: Any) -> dict[str, Any]:
    """A run of a length that ended some time ago."""
    started = {"startedAt": moment(NOW_S - ago_s - ran_s), "finishedAt": moment(NOW_S - ago_s)}
    return {"terminated": {"exitCode": 3, "message": LOG, **started, **fields}}


def running(for_s: float) -> dict[str, Any]:
    return {"running": {"startedAt": moment(NOW_S - for_s)}}


def waiting(reason: str) -> dict[str, Any]:
    return {"waiting": {"reason": reason}}


def engine(restarts: int, state: Any, last: Any = None, *, ready: bool = False) -> dict[str, Any]:
    found = {"name": "engine", "ready": ready, "restartCount": restarts, "state": state}
    return found if last is None else {**found, "lastState": last}


BACK_OFF = waiting("CrashLoopBackOff")
LOOPS: list[tuple[str, dict[str, Any], bool]] = [
    ("waits to be started again", engine(3, BACK_OFF, ended(2, 5)), True),
    ("the second restart", engine(2, BACK_OFF, ended(2, 5)), False),
    ("has just ended again", engine(5, ended(2, 0), ended(2, 50)), True),
    ("ends well, and should not", engine(5, ended(2, 0, exitCode=0), ended(2, 50)), True),
    ("is made again", engine(5, waiting("ContainerCreating"), ended(2, 30)), True),
    ("runs again, and is ready", engine(5, running(20), ended(15, 30), ready=True), True),
    ("runs again, not ready yet", engine(5, running(20), ended(15, 30)), True),
    ("has held for a minute", engine(5, running(61), ended(15, 70), ready=True), False),
    ("holds, but not past its last run", engine(5, running(200), ended(180, 250)), True),
    ("holds twice its last run", engine(5, running(361), ended(180, 400), ready=True), False),
    ("serves for a minute", engine(5, running(61), ended(180, 70), ready=True), False),
    ("serves for less", engine(5, running(59), ended(180, 70), ready=True), True),
    ("holds for ten minutes", engine(5, running(601), ended(590, 700), ready=True), False),
    ("ended once after days", engine(9, running(5), ended(86400, 10)), False),
    ("ended after days, not up yet", engine(9, ended(86400, 0)), False),
    ("never began", engine(4, BACK_OFF, ended(0, 5, startedAt="1970-01-01T00:00:00Z")), True),
    (
        "never began, between two tries",
        engine(4, ended(0, 0, startedAt="1970-01-01T00:00:00Z", reason="StartError")),
        True,
    ),
    ("times unknown", engine(4, running(5), {"terminated": {"exitCode": 1}}), True),
    ("its past is forgotten", engine(4, running(5)), False),
    ("waits, its past forgotten", engine(4, BACK_OFF), True),
    ("never ended", engine(0, running(900), ready=True), False),
]


@pytest.mark.parametrize(("container", "loops"), [c[1:] for c in LOOPS], ids=[c[0] for c in LOOPS])
def test_a_container_in_a_loop(container: dict[str, Any], loops: bool) -> None:
    assert (found_in({"containerStatuses": [container]}, NOW_S) is not None) is loops


@pytest.mark.parametrize(
    ("container", "loops"),
    [
        (engine(5, ended(2, 30, exitCode=0), ended(2, 50), ready=True), False),
        (engine(5, BACK_OFF, ended(2, 5)), True),
    ],
    ids=["done in the end", "not done"],
)
def test_an_init_container(container: dict[str, Any], loops: bool) -> None:
    assert (found_in({"initContainerStatuses": [container]}, NOW_S) is not None) is loops


def test_the_loop_is_told_with_the_containers_last_words() -> None:
    status = {"containerStatuses": [engine(4, running(3), ended(2, 20, reason="OOMKilled"))]}
    assert found_in(status, NOW_S) == Problem(
        "CrashLoop",
        "container engine keeps ending: exit code 3, OOMKilled, parallel worker lost, 4 restarts",
    )


def test_only_pods_in_a_loop_are_marked() -> None:
    items = [pod_object("chat", name, ip="10.0.0.1") for name in ("a", "b")]
    for item in items:
        item["metadata"]["uid"] = f"uid-{item['metadata']['name']}"
    items[0]["status"]["containerStatuses"] = [engine(4, running(3), ended(2, 20), ready=True)]
    looping, well = marked(read_pods(items), items, NOW_S)
    assert (looping.name, looping.ready, looping.looping) == ("a", True, True)
    assert looping.problem is not None
    assert (well.looping, well.problem) == (False, None)


HISTORY: list[tuple[str, list[tuple[dict[str, Any], bool]]]] = [
    (
        "two restarts months ago, and two now",
        [
            (engine(2, running(86400), ended(5, 86400), ready=True), False),
            (engine(3, running(5), ended(86400, 6)), False),
            (engine(4, running(5), ended(15, 6)), False),
            (engine(5, running(5), ended(15, 6)), True),
        ],
    ),
    (
        "a long run that is seen only when it has ended",
        [
            (engine(7, ended(700, 1), ended(5, 702)), False),
            (engine(8, BACK_OFF, ended(700, 5)), False),
            (engine(9, BACK_OFF, ended(15, 5)), False),
            (engine(10, BACK_OFF, ended(15, 5)), True),
        ],
    ),
    ("nothing is known of before", [(engine(4, running(5), ended(15, 6)), True)]),
]


@pytest.mark.parametrize("steps", [h[1] for h in HISTORY], ids=[h[0] for h in HISTORY])
def test_restarts_count_from_the_last_run_of_ten_minutes(
    steps: list[tuple[dict[str, Any], bool]],
) -> None:
    known: dict[str, dict[str, int]] = {}
    item = pod_object("chat", "a", ip="10.0.0.1")
    item["metadata"]["uid"] = "u"
    for container, loops in steps:
        item["status"]["containerStatuses"] = [container]
        known = remembered(known, [item], NOW_S)
        (pod,) = marked(read_pods([item]), [item], NOW_S, known)
        assert pod.looping is loops
    assert remembered(known, [], NOW_S) == {}
