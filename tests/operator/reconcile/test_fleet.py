"""The whole operator with real engines: push, acknowledgement, drained scale-in.

The API server is real, the engines are real, the operator is its own process; the test plays
the kubelet and the Deployment controller.
"""

from __future__ import annotations

import json
import urllib.request
from base64 import b64decode
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine_pods import (
    ADMIN_PORT,
    PODS,
    EnginePod,
    delete_pod,
    engine_pod,
    mirror,
    settle,
)
from tests.support.fleet_api import COLLECTION, FleetApi, inference_service
from tests.support.operator_process import OperatorProcess, operator_process
from tests.support.rest import MERGE, Rest
from tests.support.service import condition, replicas, status, versions

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(360)]

LOOPS = 2
LAW = "--step-coefficients=base_ms=5,per_token_ms=0.01"
SPEC: dict[str, Any] = {
    "engine": {
        "device": {"type": "Simulated"},
        "maxNumSeqs": 32,
        "batchTokens": {"max": 1024, "initial": 512},
    },
    "slos": [{"name": "ttft", "metric": "TTFT", "targetMs": 500}],
    "tuning": {"mode": "Off"},
    "scaling": {"mode": "Off"},
    "routing": {"mode": "Service"},
    "replicas": 2,
}


def admin(pod: EnginePod, token: str, path: str, method: str = "GET") -> dict[str, Any]:
    request = urllib.request.Request(  # noqa: S310 - loopback
        pod.url(ADMIN_PORT, path), headers={"Authorization": f"Bearer {token}"}, method=method
    )
    with urllib.request.urlopen(request, timeout=5) as reply:  # noqa: S310 - loopback
        found: dict[str, Any] = json.load(reply)
    return found


def tunables_file(rest: Rest, name: str) -> dict[str, Any]:
    path = f"/api/v1/namespaces/default/configmaps/{name}-tunables"
    found: dict[str, Any] = json.loads(rest.call("GET", path).body["data"]["tunables.json"])
    return found


def start(
    fleets: FleetApi,
    operator: OperatorProcess,
    stack: ExitStack,
    directory: Path,
    name: str,
    **fields: Any,
) -> tuple[str, list[EnginePod]]:
    """A service with two serving engines; returns its token and pods."""
    rest = fleets.rest
    made = fleets.create(inference_service(name, {**SPEC, **fields}))
    assert made.status == 201, made.message
    operator.eventually(lambda: status(rest, name))
    operator.eventually(lambda: replicas(rest, name) == 2)
    secret = rest.call("GET", f"/api/v1/namespaces/default/secrets/{name}-admin").body
    token = b64decode(secret["data"]["token"]).decode()
    folder = directory / f"{name}-tunables"
    folder.mkdir()
    (folder / "tunables.json").write_text(json.dumps(tunables_file(rest, name)))
    flags = (
        LAW, "--max-num-batched-tokens=1024", "--max-num-seqs=32", f"--tunables-dir={folder}",
        "--drain-grace-seconds=1",
    )  # fmt: skip
    pods = [stack.enter_context(engine_pod(rest, name, token, directory, *flags)) for _ in range(2)]
    settle(rest, name, 2)
    return token, pods


def test_push_acknowledge_and_drain(
    fleets: FleetApi, operator: OperatorProcess, tmp_path: Path
) -> None:
    rest, name = fleets.rest, "fleet"
    with ExitStack() as stack:
        token, pods = start(fleets, operator, stack, tmp_path, name)
        budget = operator.eventually(
            lambda: (b := status(rest, name)["budget"]) and b["acknowledged"] == 2 and b
        )
        assert (budget["revision"], budget["effective"], budget["total"]) == (0, 512, 2)

        # New objectives are a new revision, in the status before any engine has it.
        slos = [{"name": "ttft", "metric": "TTFT", "targetMs": 250}]
        rest.call("PATCH", f"{COLLECTION}/{name}", {"spec": {"slos": slos}}, MERGE)
        operator.eventually(
            lambda: (b := status(rest, name)["budget"])["revision"] == 1 and b["acknowledged"] == 2
        )
        for pod in pods:
            answer = admin(pod, token, "/admin/tunables")
            assert (answer["revision"], answer["slos"][0]["targetMs"]) == (1, 250)
        operator.eventually(lambda: tunables_file(rest, name)["revision"] == 1)

        # One replica less: the least loaded pod is drained, and nothing is cut.
        streams = [pods[0].stream(5000), pods[0].stream(5000), pods[1].stream(4600)]
        before = decisions(operator, name)
        # A round of readings may have begun before the load did: the one after it has seen it.
        operator.eventually(lambda: decisions(operator, name) >= before + 2 * LOOPS)
        rest.call("PATCH", f"{COLLECTION}/{name}", {"spec": {"replicas": 1}}, MERGE)
        victim = operator.eventually(lambda: draining(rest))
        assert victim
        assert victim["metadata"]["name"] == pods[1].name
        cost = victim["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"]
        assert int(cost) < 0
        operator.eventually(lambda: not pods[1].is_ready())
        mirror(rest, pods[1])
        assert replicas(rest, name) == 2
        bodies = [stream.read().decode() for stream in streams]
        assert all(body.rstrip().endswith("[DONE]") for body in bodies)
        operator.eventually(lambda: replicas(rest, name) == 1)
        delete_pod(rest, pods[1].name)
        settle(rest, name, 1)
        operator.eventually(lambda: status(rest, name)["replicas"] == 1)
        assert draining(rest) is None
        assert condition(rest, name, "Ready")["status"] == "True"
        delete_pod(rest, pods[0].name)
        fleets.delete(name)


@pytest.mark.slow
def test_a_drain_that_takes_too_long_is_undone_and_told(
    fleets: FleetApi, operator: OperatorProcess, tmp_path: Path
) -> None:
    rest, name = fleets.rest, "busy"
    with ExitStack() as stack:
        _, pods = start(fleets, operator, stack, tmp_path, name, rollout={"drainSeconds": 1})
        operator.eventually(lambda: status(rest, name)["budget"]["acknowledged"] == 2)
        streams = [pod.stream(3000) for pod in pods]
        rest.call("PATCH", f"{COLLECTION}/{name}", {"spec": {"replicas": 1}}, MERGE)
        victim = operator.eventually(lambda: draining(rest))
        assert victim
        leaving = next(pod for pod in pods if pod.name == victim["metadata"]["name"])
        operator.eventually(lambda: not leaving.is_ready())
        mirror(rest, leaving)
        operator.eventually(lambda: draining(rest) is None)
        operator.eventually(leaving.is_ready)
        assert replicas(rest, name) == 2
        operator.eventually(lambda: "DrainTimeout" in reasons(rest, name))
        for stream in streams:
            stream.close()
        fleets.delete(name)


@pytest.mark.slow
def test_a_drained_pod_that_another_left_for_is_taken_back(
    fleets: FleetApi, operator: OperatorProcess, tmp_path: Path
) -> None:
    rest, name = fleets.rest, "wrong"
    with ExitStack() as stack:
        _, pods = start(fleets, operator, stack, tmp_path, name)
        operator.eventually(lambda: status(rest, name)["budget"]["acknowledged"] == 2)
        rest.call("PATCH", f"{COLLECTION}/{name}", {"spec": {"replicas": 1}}, MERGE)
        victim = operator.eventually(lambda: draining(rest))
        assert victim
        drained = next(pod for pod in pods if pod.name == victim["metadata"]["name"])
        operator.eventually(lambda: replicas(rest, name) == 1)
        delete_pod(rest, next(pod.name for pod in pods if pod is not drained))
        settle(rest, name, 1)
        operator.eventually(lambda: draining(rest) is None)
        operator.eventually(drained.is_ready)
        operator.eventually(lambda: "WrongVictim" in reasons(rest, name))
        fleets.delete(name)
        delete_pod(rest, drained.name)


@pytest.mark.behaviour(
    "an engine that drains though the operator did not ask is taken back into service, and the "
    "status says so",
    report="a drain begun at an engine's admin port by a stranger was never undone",
)
@pytest.mark.parametrize(
    ("name", "is_left"),
    [("stranger", False), ("stranger-beside-hpa", True)],
    ids=["settled", "replicas left to another"],
)
def test_a_drain_by_a_stranger_is_undone_and_told(
    fleets: FleetApi, operator: OperatorProcess, tmp_path: Path, name: str, is_left: bool
) -> None:
    rest = fleets.rest
    with ExitStack() as stack:
        token, pods = start(fleets, operator, stack, tmp_path, name)
        operator.eventually(lambda: status(rest, name)["budget"]["acknowledged"] == 2)
        if is_left:
            stack.callback(rest.call, "DELETE", hpa(rest, name))
            operator.eventually(lambda: condition(rest, name, "Conflict")["status"] == "True")
        assert admin(pods[0], token, "/admin/drain", "POST")["phase"] == "announced"
        mirror(rest, pods[0])
        operator.eventually(lambda: admin(pods[0], token, "/admin/drain")["phase"] == "none")
        operator.eventually(pods[0].is_ready)
        mirror(rest, pods[0])
        operator.eventually(lambda: "ForeignDrain" in reasons(rest, name))
        told = operator.eventually(
            lambda: (c := condition(rest, name, "Conflict"))["status"] == "True"
            and "drained by someone else" in c["message"] and c
        )  # fmt: skip
        assert told
        assert pods[0].name in told["message"]
        operator.eventually(lambda: condition(rest, name, "Ready")["status"] == "True")
        assert replicas(rest, name) == 2
        fleets.delete(name)
        for pod in pods:
            delete_pod(rest, pod.name)


def hpa(rest: Rest, name: str) -> str:
    """Have an autoscaler own the replicas; returns its path."""
    collection = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    body = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": f"{name}-scaler"},
        "spec": {"maxReplicas": 9, "scaleTargetRef": {
            "apiVersion": "apps/v1", "kind": "Deployment", "name": name}},
    }  # fmt: skip
    assert rest.call("POST", collection, body).status == 201
    return f"{collection}/{name}-scaler"


def reasons(rest: Rest, name: str) -> set[str]:
    """Reasons of the events about an object."""
    items = rest.call("GET", "/apis/events.k8s.io/v1/namespaces/default/events").body["items"]
    return {each["reason"] for each in items if each["regarding"].get("name") == name}


@pytest.mark.slow
def test_an_idle_fleet_and_a_restarted_operator_write_nothing(
    fleets: FleetApi, operator: OperatorProcess, tmp_path: Path
) -> None:
    rest, name = fleets.rest, "idle"
    with ExitStack() as stack:
        start(fleets, operator, stack, tmp_path, name)
        operator.eventually(lambda: status(rest, name)["budget"]["acknowledged"] == 2)
        operator.eventually(lambda: condition(rest, name, "Ready")["status"] == "True")
        operator.eventually(lambda: condition(rest, name, "MetricsFresh")["status"] == "True")
        before = passes(operator)
        first = versions(rest, name)
        operator.eventually(lambda: passes(operator) >= before + 3)
        assert versions(rest, name) == first
        # A second operator on the same lease would wait; one for this object alone does not.
        settings = {"watchNamespaces": ["default"], "leaseName": "second"}
        with operator_process(fleets.server.kubeconfig, tmp_path, "second", settings) as second:
            second.eventually(lambda: passes(second) >= 3)
        assert versions(rest, name) == first
        fleets.delete(name)


def passes(operator: OperatorProcess) -> float:
    """Passes over all objects so far."""
    _, text = operator.get("/metrics")
    lines = (line for line in text.splitlines() if line.startswith("paceline_operator_ticks_total"))
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def decisions(operator: OperatorProcess, name: str) -> float:
    """Decisions on an object so far, holds included: each loop makes one of every new reading."""
    _, text = operator.get("/metrics")
    return sum(
        float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if line.startswith("paceline_operator_decisions_total") and f'name="{name}"' in line
    )


def draining(rest: Rest) -> dict[str, Any] | None:
    """The pod that carries a drain's mark, if any."""
    for item in rest.call("GET", PODS).body["items"]:
        if "paceline.dev/draining-since" in item["metadata"].get("annotations", {}):
            found: dict[str, Any] = item
            return found
    return None
