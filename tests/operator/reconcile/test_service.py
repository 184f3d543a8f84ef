"""What the operator does with one object, on a real API server, without any pod."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from paceline_operator.api.v1alpha1 import MAX_WINDOW_SECONDS
from paceline_operator.autopilot.record import Replay
from paceline_operator.domain.ownership import is_claimed
from tests.support.engine_pods import settle
from tests.support.fleet import pod_object
from tests.support.fleet_api import COLLECTION, DEFINITIONS, FleetApi, inference_service
from tests.support.operator_process import OperatorProcess
from tests.support.rest import APPLY, MERGE
from tests.support.service import (
    CORE,
    DEPLOYMENTS,
    condition,
    paths,
    replicas,
    status,
    versions,
)

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(360)]

SPEC: dict[str, Any] = {
    "engine": {"device": {"type": "Simulated"}},
    "slos": [{"name": "ttft", "metric": "TTFT", "targetMs": 500}],
    "scaling": {"mode": "Off"},
}
CONDITIONS = [
    "Ready", "Reconciling", "Stalled", "MetricsFresh", "SLOMet", "SLOFeasible", "ScalingLimited",
    "Conflict",
]  # fmt: skip


def create(fleets: FleetApi, name: str, **fields: Any) -> None:
    made = fleets.create(inference_service(name, {**SPEC, **fields}))
    assert made.status == 201, made.message


def test_one_object_becomes_a_fleet_and_every_condition_is_set(
    fleets: FleetApi, operator: OperatorProcess
) -> None:
    create(fleets, "whole", scaling={"minReplicas": 2, "maxReplicas": 4})
    operator.eventually(lambda: len(versions(fleets.rest, "whole")) == len(paths("whole")))
    operator.eventually(lambda: replicas(fleets.rest, "whole") == 2)
    found = operator.eventually(lambda: status(fleets.rest, "whole"))
    assert [each["type"] for each in found["conditions"]] == CONDITIONS
    assert found["observedGeneration"] == 1
    assert condition(fleets.rest, "whole", "Ready")["status"] == "False"


def test_nothing_is_written_in_the_steady_state_nor_by_a_second_apply(
    fleets: FleetApi, operator: OperatorProcess
) -> None:
    manifest = inference_service("steady", SPEC)
    path = f"{COLLECTION}/steady?fieldManager=user&force=true"
    assert fleets.rest.call("PATCH", path, manifest, APPLY).status == 201
    before = settled(fleets, operator, "steady")
    assert fleets.rest.call("PATCH", path, manifest, APPLY).status == 200
    # Make it look again, and wait until it has: another object's pass comes after this one's.
    create(fleets, "steady-marker")
    settled(fleets, operator, "steady-marker")
    passes = ticks(operator)
    operator.eventually(lambda: ticks(operator) >= passes)
    assert versions(fleets.rest, "steady") == before


def test_every_decision_is_recorded_and_made_again(
    fleets: FleetApi, operator: OperatorProcess
) -> None:
    create(fleets, "recorded")
    records = operator.log.parent / "records" / "decisions.jsonl"
    lines = operator.eventually(
        lambda: (
            found
            if records.exists() and '"default/recorded"' in (found := records.read_text())
            else None
        )
    )
    replay = Replay()
    for line in lines.splitlines(keepends=True):
        if line.endswith("\n"):
            assert replay.again(line[:-1])[1] == line[:-1]


def ticks(operator: OperatorProcess) -> float:
    _, text = operator.get("/metrics")
    lines = (line for line in text.splitlines() if line.startswith("paceline_operator_ticks_total"))
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def settled(fleets: FleetApi, operator: OperatorProcess, name: str) -> dict[str, str]:
    """Versions that stayed the same over two seconds, once nothing is left to be written."""
    operator.eventually(lambda: len(versions(fleets.rest, name)) == len(paths(name)))
    claimed(fleets, operator, name)

    def same() -> dict[str, str] | None:
        first = versions(fleets.rest, name)
        time.sleep(2.0)
        return first if versions(fleets.rest, name) == first else None

    return operator.eventually(same) or {}


def claimed(fleets: FleetApi, operator: OperatorProcess, name: str) -> None:
    """Wait until the operator has written replicas through `/scale`, its last first write.

    A Deployment looks claimed for a moment while it is made; the status is written after that.
    """
    operator.eventually(lambda: status(fleets.rest, name))
    path = f"{DEPLOYMENTS}/{name}"
    operator.eventually(lambda: is_claimed(fleets.rest.call("GET", path).body))


def test_scale_in_mode_off_is_the_value(fleets: FleetApi, operator: OperatorProcess) -> None:
    create(fleets, "off")
    operator.eventually(lambda: replicas(fleets.rest, "off") == 1)
    fleets.server.kubectl("scale", "infs/off", "--replicas=3")
    operator.eventually(lambda: replicas(fleets.rest, "off") == 3)
    operator.eventually(lambda: status(fleets.rest, "off").get("desiredReplicas") == 3)


def test_scale_in_mode_auto_is_a_floor_with_an_expiry(
    fleets: FleetApi, operator: OperatorProcess
) -> None:
    create(fleets, "auto", scaling={"minReplicas": 1, "maxReplicas": 5})
    operator.eventually(lambda: replicas(fleets.rest, "auto") == 1)
    operator.eventually(lambda: status(fleets.rest, "auto"))
    assert condition(fleets.rest, "auto", "ScalingLimited")["status"] == "False"
    fleets.server.kubectl("scale", "infs/auto", "--replicas=3")
    operator.eventually(lambda: replicas(fleets.rest, "auto") == 3)
    limited = operator.eventually(
        lambda: (
            (c := condition(fleets.rest, "auto", "ScalingLimited")).get("status") == "True" and c
        )
    )
    assert limited
    assert limited["reason"] == "ManualFloor"
    assert "until 20" in limited["message"]


@pytest.mark.slow
@pytest.mark.timeout(360)
def test_one_foreign_write_is_adopted_and_a_second_makes_the_knob_yield(
    fleets: FleetApi, operator: OperatorProcess
) -> None:
    create(fleets, "fought")
    claimed(fleets, operator, "fought")
    assert replicas(fleets.rest, "fought") == 1
    fleets.server.kubectl("scale", "deployment/fought", "--replicas=2")
    operator.eventually(lambda: len(status(fleets.rest, "fought")["memory"]["writers"]) == 1)
    assert condition(fleets.rest, "fought", "Conflict")["status"] == "False"
    settle(fleets.rest, "fought", 2)
    # After the disturbance, a minute, the value the user asked for stands again.
    operator.eventually(lambda: replicas(fleets.rest, "fought") == 1, within_s=200)
    fleets.server.kubectl("scale", "deployment/fought", "--replicas=4")
    conflict = operator.eventually(
        lambda: (c := condition(fleets.rest, "fought", "Conflict"))["status"] == "True" and c
    )
    assert conflict
    assert "replicas is left to kubectl" in conflict["message"]
    operator.eventually(lambda: status(fleets.rest, "fought")["desiredReplicas"] == 4)
    assert replicas(fleets.rest, "fought") == 4


def test_an_autoscaler_on_the_deployment_makes_the_knob_yield(
    fleets: FleetApi, operator: OperatorProcess
) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "hpa"}
    body = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "scaler"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 9},
    }
    collection = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    assert fleets.rest.call("POST", collection, body).status == 201
    create(fleets, "hpa")
    conflict = operator.eventually(
        lambda: (c := condition(fleets.rest, "hpa", "Conflict")).get("status") == "True" and c
    )
    assert conflict
    assert "HorizontalPodAutoscaler scaler" in conflict["message"]


def test_what_cannot_be_served_is_stalled_and_said(
    fleets: FleetApi, operator: OperatorProcess
) -> None:
    create(fleets, "refused", model={"uri": "hf://org/model"}, engine={"device": {"type": "CPU"}})
    stalled = operator.eventually(
        lambda: (c := condition(fleets.rest, "refused", "Stalled")).get("status") == "True" and c
    )
    assert stalled
    assert stalled["reason"] == "UnsupportedModel"
    assert "hf:// is not supported yet" in stalled["message"]
    assert condition(fleets.rest, "refused", "Ready")["status"] == "False"
    assert replicas(fleets.rest, "refused") is None


@pytest.mark.parametrize(
    ("name", "fields", "reason"),
    [
        ("no-uri", {"model": {"uri": "pvc://[bad/x"}}, "UnsupportedModel"),
        ("no-path", {"model": {"uri": "pvc://claim/a%00b"}}, "UnsupportedModel"),
        ("no-claim", {"model": {"uri": "pvc://Claim/a"}}, "UnsupportedModel"),
        (
            "no-name",
            {"template": {"spec": {"containers": [
                {"name": "engine", "env": [{"name": {"a": 1}, "value": "5"}]},
            ]}}},
            "InvalidTemplate",
        ),
        ("no-volume", {"template": {"spec": {"volumes": [{"name": ["x"]}]}}}, "InvalidTemplate"),
    ],
)  # fmt: skip
def test_what_the_schema_lets_through_is_stalled_with_its_reason(
    fleets: FleetApi, operator: OperatorProcess, name: str, fields: dict[str, Any], reason: str
) -> None:
    create(fleets, name, **fields)
    stalled = operator.eventually(
        lambda: (c := condition(fleets.rest, name, "Stalled")).get("status") == "True" and c
    )
    assert stalled
    assert stalled["reason"] == reason


@contextmanager
def longest_window(fleets: FleetApi, seconds: int) -> Iterator[None]:
    """A definition that admits windows of so many seconds, as an earlier version did."""
    path = f"{DEFINITIONS}/inferenceservices.paceline.dev"
    schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/slos/items"
    limit = f"{schema}/properties/windowSeconds/maximum"

    def admit(most: int) -> None:
        patch = [{"op": "replace", "path": limit, "value": most}]
        reply = fleets.rest.call("PATCH", path, patch, "application/json-patch+json")
        assert reply.status == 200, reply.message
        slo = {**SPEC["slos"][0], "windowSeconds": most}
        beyond = {**slo, "windowSeconds": most + 1}
        for window, answer in ((slo, 201), (beyond, 422)):
            probe = inference_service("probe", {**SPEC, "slos": [window]})
            eventually(lambda p=probe, a=answer: fleets.validate(p).status == a)

    admit(seconds)
    try:
        yield
    finally:
        admit(MAX_WINDOW_SECONDS)


def eventually(check: Callable[[], bool]) -> None:
    limit_s = time.monotonic() + 60.0
    while not check():
        assert time.monotonic() < limit_s
        time.sleep(0.1)


@pytest.mark.behaviour(
    "an object stored with a window that is not admitted any more is served and told of it",
    report="windowSeconds above 300 was admitted and did nothing",
)
def test_a_window_that_was_admitted_once_is_served_and_said(
    fleets: FleetApi, operator: OperatorProcess
) -> None:
    with longest_window(fleets, 3600):
        create(fleets, "wide", slos=[{**SPEC["slos"][0], "windowSeconds": 3600}])
    operator.eventually(lambda: replicas(fleets.rest, "wide") == 1)
    met = operator.eventually(lambda: condition(fleets.rest, "wide", "SLOMet"))
    assert "not the windowSeconds of: ttft" in met["message"]
    # Its status is written after the definition has changed, too.
    body = {"spec": {"replicas": 2}}
    assert fleets.rest.call("PATCH", f"{COLLECTION}/wide", body, MERGE).status == 200
    operator.eventually(lambda: status(fleets.rest, "wide")["observedGeneration"] == 2)
    assert replicas(fleets.rest, "wide") == 2
    assert condition(fleets.rest, "wide", "Stalled")["status"] == "False"


def test_a_pod_that_lost_its_label_stops_nothing(
    fleets: FleetApi, operator: OperatorProcess
) -> None:
    create(fleets, "unlabelled")
    settled(fleets, operator, "unlabelled")
    lost = pod_object("unlabelled", "unlabelled-lost")
    del lost["metadata"]["labels"]["paceline.dev/component"]
    assert fleets.rest.call("POST", f"{CORE}/pods", lost).status == 201
    body = {"spec": {"scaling": {"maxReplicas": 3}, "replicas": 2}}
    assert fleets.rest.call("PATCH", f"{COLLECTION}/unlabelled", body, MERGE).status == 200
    operator.eventually(lambda: replicas(fleets.rest, "unlabelled") == 2)
    assert condition(fleets.rest, "unlabelled", "Stalled")["status"] == "False"


def test_what_the_server_rejects_is_stalled_and_said(
    fleets: FleetApi, operator: OperatorProcess
) -> None:
    create(fleets, "rejected", template={"spec": {"restartPolicy": "Sometimes"}})
    stalled = operator.eventually(
        lambda: (c := condition(fleets.rest, "rejected", "Stalled")).get("status") == "True" and c
    )
    assert stalled
    assert stalled["reason"] == "RejectedByServer"
    assert "restartPolicy" in stalled["message"]
    # Mended, it goes on by itself.
    body = {"spec": {"template": {"spec": {"restartPolicy": "Always"}}}}
    fleets.rest.call("PATCH", f"{COLLECTION}/rejected", body, MERGE)
    operator.eventually(lambda: condition(fleets.rest, "rejected", "Stalled")["status"] == "False")
    assert replicas(fleets.rest, "rejected") == 1


@pytest.mark.behaviour(
    "a field the server does not know is said in the status, of a new object and of an old one",
    report="a misspelt field in spec.template was answered with a 500 and tried again for ever",
)
@pytest.mark.parametrize(
    ("name", "pod_spec"),
    [
        ("misspelt", {"tolerationz": []}),
        ("misshapen", {"tolerations": {"key": "gpu"}}),
    ],
)
def test_a_field_the_server_does_not_know_is_stalled_and_said(
    fleets: FleetApi, operator: OperatorProcess, name: str, pod_spec: dict[str, Any]
) -> None:
    def refused(service: str) -> None:
        stalled = operator.eventually(
            lambda: (c := condition(fleets.rest, service, "Stalled")).get("status") == "True" and c
        )
        assert stalled
        assert stalled["reason"] == "RejectedByServer"
        assert next(iter(pod_spec)) in stalled["message"]

    def written(service: str, template: dict[str, Any] | None) -> None:
        body = {"spec": {"template": template}}
        assert fleets.rest.call("PATCH", f"{COLLECTION}/{service}", body, MERGE).status == 200

    create(fleets, f"new-{name}", template={"spec": pod_spec})
    create(fleets, f"old-{name}")
    operator.eventually(lambda: replicas(fleets.rest, f"old-{name}") == 1)
    written(f"old-{name}", {"spec": pod_spec})
    for service in (f"new-{name}", f"old-{name}"):
        refused(service)
        written(service, None)
        operator.eventually(
            lambda service=service: condition(fleets.rest, service, "Stalled")["status"] == "False"
        )
        assert replicas(fleets.rest, service) == 1


def test_an_object_of_someone_else_is_left_alone(
    fleets: FleetApi, operator: OperatorProcess
) -> None:
    mine = {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs-tunables"},
        "data": {"a": "b"},
    }  # fmt: skip
    assert fleets.rest.call("POST", f"{CORE}/configmaps", mine).status == 201
    create(fleets, "theirs")
    stalled = operator.eventually(
        lambda: (c := condition(fleets.rest, "theirs", "Stalled")).get("status") == "True" and c
    )
    assert stalled
    assert stalled["reason"] == "NameTaken"
    assert "ConfigMap theirs-tunables exists and belongs" in stalled["message"]
    kept = fleets.rest.call("GET", f"{CORE}/configmaps/theirs-tunables").body
    assert kept["data"] == {"a": "b"}
    assert fleets.rest.call("GET", f"{DEPLOYMENTS}/theirs").status == 404


def test_deletion_waits_for_nobody(fleets: FleetApi, operator: OperatorProcess) -> None:
    create(fleets, "brief")
    settled(fleets, operator, "brief")
    found = fleets.rest.call("GET", f"{COLLECTION}/brief").body
    assert "finalizers" not in found["metadata"]
    fleets.delete("brief")
    assert fleets.rest.call("GET", f"{COLLECTION}/brief").status == 404


def test_kopf_leaves_no_trace(fleets: FleetApi, operator: OperatorProcess) -> None:
    create(fleets, "clean")
    settled(fleets, operator, "clean")
    for path in paths("clean"):
        text = str(fleets.rest.call("GET", path).body)
        assert "kopf" not in text
        assert "zalando" not in text
