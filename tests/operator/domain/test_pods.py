from __future__ import annotations

from typing import Any

import pytest

from paceline_operator.domain.pods import Problem, read_pod, read_pods, seconds
from tests.support.fleet import NOW_S, moment, pod_object


def stored(**status: Any) -> dict[str, Any]:
    item = pod_object("chat", "chat-1", ip="10.0.0.1", template="t1", draining_since_s=NOW_S - 30)
    item["metadata"] |= {
        "uid": "u1",
        "resourceVersion": "7",
        "creationTimestamp": moment(NOW_S - 60),
    }
    item["status"] |= status
    return item


def test_reads_what_matters() -> None:
    view = read_pod(stored())
    assert (view.name, view.uid, view.ip, view.version) == ("chat-1", "u1", "10.0.0.1", "7")
    assert (view.ready, view.ready_since_s, view.created_s) == (True, NOW_S - 500, NOW_S - 60)
    assert (view.template_hash, view.draining_since_s) == ("t1", NOW_S - 30)
    assert view.live
    assert not view.serving


def test_a_pod_just_made_has_no_status() -> None:
    item = stored()
    del item["status"]
    view = read_pod(item)
    assert (view.ready, view.ip, view.live, view.problem) == (False, None, True, None)


def test_a_restart_is_another_incarnation() -> None:
    before = stored()
    after = stored(containerStatuses=[{"name": "engine", "restartCount": 1}])
    assert read_pod(before).incarnation != read_pod(after).incarnation


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_is_no_replica(phase: str) -> None:
    assert not read_pod(stored(phase=phase)).live


def test_a_pod_told_to_go_is_no_replica() -> None:
    item = stored()
    item["metadata"]["deletionTimestamp"] = moment(NOW_S)
    assert not read_pod(item).live


def unready(**container: Any) -> dict[str, Any]:
    return stored(
        conditions=[{"type": "Ready", "status": "False"}],
        containerStatuses=[{"name": "engine", "restartCount": 3, **container}],
    )


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason, "message": message}}}


SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": moment(NOW_S - 40)}
UNREADY = {"type": "Ready", "status": "False"}

PROBLEMS: list[tuple[str, dict[str, Any], Problem | None]] = [
    ("starting", unready(**waiting("ContainerCreating")), None),
    (
        "image",
        unready(**waiting("ImagePullBackOff", "no such image")),
        Problem("ImagePullBackOff", "container engine: no such image"),
    ),
    (
        "image never pulled",
        unready(**waiting("ErrImageNeverPull")),
        Problem("ErrImageNeverPull", "container engine"),
    ),
    (
        "crash loop with its last words",
        unready(
            **waiting("CrashLoopBackOff"),
            lastState={"terminated": {"exitCode": 2, "reason": "Error", "message": "no model\n"}},
        ),
        Problem("CrashLoop", "container engine keeps ending: exit code 2, no model, 3 restarts"),
    ),
    (
        "out of memory",
        unready(
            **waiting("CrashLoopBackOff"),
            lastState={"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
        ),
        Problem("CrashLoop", "container engine keeps ending: exit code 137, OOMKilled, 3 restarts"),
    ),
    (
        "unschedulable",
        stored(
            conditions=[
                {
                    "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                    "message": "0/1 nodes are available: 1 Insufficient cpu.",
                }
            ]
        ),
        Problem("Unschedulable", "0/1 nodes are available: 1 Insufficient cpu."),
    ),
]  # fmt: skip


STARTED = {"startedAt": moment(NOW_S - 9), "finishedAt": moment(NOW_S - 5)}
LOG = "INFO: memory plan: total 229 MiB\n\npaceline-engine: no such file: /m.gguf\n"
DIED = {"exitCode": 2, "reason": "Error", "message": LOG, **STARTED}
WORDS = "exit code 2, paceline-engine: no such file: /m.gguf"
KEEPS = f"container engine keeps ending: {WORDS}"


def after(unready_since_s: float | None = None, **container: Any) -> dict[str, Any]:
    """A pod whose engine has ended before, unready since it was made or since then."""
    item = unready(**container)
    changed_s = NOW_S - 60 if unready_since_s is None else unready_since_s
    item["status"]["conditions"][0]["lastTransitionTime"] = moment(changed_s)
    return item


ENDED: list[tuple[str, dict[str, Any], Problem | None]] = [
    (
        "waits to be started again",
        after(**waiting("CrashLoopBackOff"), lastState={"terminated": DIED}),
        Problem("CrashLoop", f"{KEEPS}, 3 restarts"),
    ),
    (
        "has just ended for the first time",
        after(restartCount=0, state={"terminated": DIED}),
        Problem("CrashLoop", f"{KEEPS}, 0 restarts"),
    ),
    (
        "has just ended again",
        after(state={"terminated": DIED}, lastState={"terminated": {**DIED, "exitCode": 1}}),
        Problem("CrashLoop", f"{KEEPS}, 3 restarts"),
    ),
    (
        "runs again and never was ready",
        after(restartCount=1, state={"running": {}}, lastState={"terminated": DIED}),
        Problem("CrashLoop", f"{KEEPS}, 1 restart"),
    ),
    (
        "is made again",
        after(**waiting("ContainerCreating"), lastState={"terminated": DIED}),
        Problem("CrashLoop", f"{KEEPS}, 3 restarts"),
    ),
    (
        "served, ended and starts again",
        after(
            NOW_S - 5, restartCount=1, state={"running": {}},
            lastState={"terminated": {"exitCode": 137, "reason": "OOMKilled", **STARTED}},
        ),
        Problem("Restarted", "container engine ended: exit code 137, OOMKilled, 1 restart"),
    ),
    (
        "an init container is done",
        stored(
            conditions=[UNREADY],
            initContainerStatuses=[{"name": "copy", "state": {"terminated": {"exitCode": 0}}}],
        ),
        None,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("item", "problem"), [c[1:] for c in ENDED], ids=[c[0] for c in ENDED])
def test_an_engine_that_ends_is_told_of_at_every_moment(
    item: dict[str, Any], problem: Problem | None
) -> None:
    """The kubelet shows `CrashLoopBackOff` only while it waits, not between two runs."""
    assert read_pod(item).problem == problem


def test_a_pod_that_serves_again_has_no_problem() -> None:
    ended = {"terminated": DIED}
    item = stored(
        containerStatuses=[{"name": "engine", "ready": True, "restartCount": 4, "lastState": ended}]
    )
    assert read_pod(item).problem is None


def test_last_words_are_short() -> None:
    item = after(**waiting("CrashLoopBackOff"), lastState={"terminated": {"message": 900 * "x"}})
    problem = read_pod(item).problem
    assert problem is not None
    assert len(problem.message) < 500


@pytest.mark.parametrize(
    ("item", "problem"), [p[1:] for p in PROBLEMS], ids=[p[0] for p in PROBLEMS]
)
def test_problem(item: dict[str, Any], problem: Problem | None) -> None:
    assert read_pod(item).problem == problem


@pytest.mark.parametrize(
    ("fields", "since_s"),
    [
        ({"containerStatuses": []}, NOW_S - 40),
        ({"containerStatuses": [{"name": "engine", **waiting("ContainerCreating")}]}, NOW_S - 40),
        ({"containerStatuses": [{"name": "engine", **waiting("ErrImagePull")}]}, None),
        ({"containerStatuses": [{"name": "engine", "state": {"running": {}}}]}, None),
        (
            {
                "initContainerStatuses": [{"name": "copy", "state": {"running": {}}}],
                "containerStatuses": [{"name": "engine", **waiting("PodInitializing")}],
            },
            None,
        ),
        ({"containerStatuses": [], "conditions": [UNREADY]}, None),
    ],
    ids=["no status", "creating", "image", "running", "another runs", "no node"],
)
def test_since_when_no_container_is_made(fields: dict[str, Any], since_s: float | None) -> None:
    given = {"phase": "Pending", "conditions": [SCHEDULED, UNREADY], **fields}
    assert read_pod(stored(**given)).creating_since_s == since_s


def test_only_engine_pods_oldest_first() -> None:
    young, old, proxy = stored(), stored(), stored()
    old["metadata"] = {**old["metadata"], "name": "old", "creationTimestamp": moment(NOW_S - 99)}
    proxy["metadata"] = {**proxy["metadata"], "labels": {"paceline.dev/component": "proxy"}}
    assert [view.name for view in read_pods([young, proxy, old])] == ["old", "chat-1"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1970-01-01T00:00:01Z", 1.0),
        ("1970-01-01T00:00:01.5Z", 1.5),
        (None, None),
        ("x", None),
        ("0001-01-01T00:00:00", None),
    ],
)
def test_seconds(text: str | None, value: float | None) -> None:
    assert seconds(text) == value
