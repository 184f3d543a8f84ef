"""A fleet that served and then keeps ending, as a kubelet shows it on a real API server."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support.engine_pods import PODS, delete_pod, settle, template_hash
from tests.support.fleet import moment, pod_object
from tests.support.fleet_api import FleetApi, inference_service
from tests.support.operator_process import OperatorProcess
from tests.support.rest import MERGE, Rest
from tests.support.service import condition, replicas, status

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(360)]

SPEC: dict[str, Any] = {
    "engine": {"device": {"type": "Simulated"}},
    "slos": [{"name": "ttft", "metric": "TTFT", "targetMs": 500}],
    "scaling": {"mode": "Off"},
    "routing": {"mode": "Service"},
}
WORDS = "paceline-engine: the model's file is gone"


def show(rest: Rest, pod: str, restarts: int, state: dict[str, Any], *, ready: bool) -> None:
    """Write a pod's status as a kubelet does; the run before lasted 250 s."""
    now_s = time.time()
    last = {"exitCode": 2, "reason": "Error", "message": f"INFO: loading\n{WORDS}\n",
            "startedAt": moment(now_s - 950), "finishedAt": moment(now_s - 700)}  # fmt: skip
    engine: dict[str, Any] = {
        "name": "engine", "image": "engine:1", "imageID": "", "ready": ready, "started": ready,
        "restartCount": restarts, "state": state,
    }  # fmt: skip
    if restarts:
        engine["lastState"] = {"terminated": last}
    conditions = [{"type": "Ready", "status": "True" if ready else "False",
                   "lastTransitionTime": moment(now_s - 1)}]  # fmt: skip
    body = {
        "phase": "Running", "podIP": "127.0.0.210", "podIPs": [{"ip": "127.0.0.210"}],
        "conditions": conditions, "containerStatuses": [engine],
    }  # fmt: skip
    done = rest.call("PATCH", f"{PODS}/{pod}/status", {"status": body}, MERGE)
    assert done.status == 200, done.message


def running(for_s: float) -> dict[str, Any]:
    return {"running": {"startedAt": moment(time.time() - for_s)}}


BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed"}}


@pytest.mark.behaviour(
    "a fleet that keeps crashing after it served is Stalled, with the engine's last words",
    report="a crash loop after a completed rollout was PodsStarting for ever",
)
def test_a_crash_loop_after_the_rollout_is_stalled_until_it_ends(
    fleets: FleetApi, operator: OperatorProcess
) -> None:
    rest, name = fleets.rest, "looping"
    assert fleets.create(inference_service(name, SPEC)).status == 201
    operator.eventually(lambda: replicas(rest, name) == 1)
    pod = f"{name}-pod"
    item = pod_object(name, pod, template=template_hash(rest, name))
    assert rest.call("POST", PODS, {k: v for k, v in item.items() if k != "status"}).status == 201
    show(rest, pod, 0, running(300), ready=True)
    settle(rest, name, 1)
    operator.eventually(lambda: is_now(rest, name, "Ready", "True"))

    # One crash alone is an accident, and told as such.
    show(rest, pod, 1, running(1), ready=False)
    operator.eventually(lambda: is_now(rest, name, "Ready", "False"))
    assert is_now(rest, name, "Stalled", "False")

    show(rest, pod, 3, BACK_OFF, ready=False)
    operator.eventually(lambda: is_now(rest, name, "Stalled", "True"))
    stalled = condition(rest, name, "Stalled")
    assert stalled["reason"] == "CrashLoop"
    assert stalled["message"] == (
        f"1 of 1 pods: container engine keeps ending: exit code 2, {WORDS}, 3 restarts"
    )
    assert is_now(rest, name, "Reconciling", "False")
    assert is_now(rest, name, "Ready", "False")

    # Between two ends it runs, and may be ready: that changes nothing yet.
    show(rest, pod, 4, running(5), ready=True)
    operator.eventually(lambda: "4 restarts" in condition(rest, name, "Stalled")["message"])
    assert status(rest, name)["readyReplicas"] == 1
    assert is_now(rest, name, "Stalled", "True")
    assert condition(rest, name, "Ready")["reason"] == "CrashLoop"

    show(rest, pod, 4, running(650), ready=True)
    operator.eventually(lambda: is_now(rest, name, "Stalled", "False"))
    assert is_now(rest, name, "Ready", "True")
    delete_pod(rest, pod)
    fleets.delete(name)


def is_now(rest: Rest, name: str, kind: str, value: str) -> bool:
    return bool(condition(rest, name, kind).get("status") == value)
