"""Fleets that an earlier version of the operator made, on a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline_operator.api.choice import RolloutStrategy
from paceline_operator.domain import desired, tunables
from paceline_operator.domain.desired import Owner, RenderInput, startup_hash
from paceline_operator.domain.difference import stamped
from paceline_operator.domain.pinned import IMAGE_BEFORE, KEY, STARTUP_BEFORE, Pinned
from paceline_operator.settings import Settings
from tests.operator.reconcile.test_foreign import seen_since
from tests.support.fleet import spec
from tests.support.fleet_api import FleetApi, inference_service
from tests.support.operator_process import OperatorProcess, operator_process
from tests.support.rest import APPLY, MERGE, Rest

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(360)]

NAMESPACE = "inheritance"
SERVICES = f"/apis/paceline.dev/v1alpha1/namespaces/{NAMESPACE}/inferenceservices"
APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}"
LIMIT = "--max-queue-seconds=slo"
BEFORE, NOW = "paceline-engine:0.0.9", "paceline-engine:9"
SPEC: dict[str, Any] = {
    "engine": {"device": {"type": "Simulated"}},
    "scaling": {"mode": "Off"},
    "routing": {"mode": "Service"},
}
SETTINGS = {"engineImage": NOW, "watchNamespaces": [NAMESPACE], "leaseName": "inheritance"}
TOLD = {
    "type": "Ready", "status": "True", "reason": "PodsReady", "message": "",
    "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
}  # fmt: skip


@pytest.fixture
def rest(fleets: FleetApi) -> Iterator[Rest]:
    """A client; the namespace is there, and all services in it are deleted afterwards."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    assert fleets.rest.call("POST", "/api/v1/namespaces", namespace).status in (201, 409)
    yield fleets.rest
    assert fleets.rest.call("DELETE", SERVICES).status == 200


def made_before(rest: Rest, name: str, **rollout: Any) -> dict[str, Any]:
    """A fleet as the earlier version left it; returns its Deployment."""
    fields = {**SPEC, **rollout}
    made = rest.call("POST", SERVICES, inference_service(name, fields))
    assert made.status == 201, made.message
    # As it is stored, with the defaults of the schema.
    uid, parsed = made.body["metadata"]["uid"], spec(**made.body["spec"])
    platform = Settings.model_validate({"engineImage": BEFORE}).platform()
    given = RenderInput(
        owner=Owner(name=name, namespace=NAMESPACE, uid=uid), spec=parsed, platform=platform,
        token="t", live=tunables.initial(parsed),
        pinned=Pinned(image=BEFORE, startup=startup_hash(parsed), strategy=RolloutStrategy.REPLACE),
    )  # fmt: skip
    manifest = next(each for each in desired.children(given) if each["kind"] == "Deployment")
    manifest["metadata"]["annotations"] = {
        IMAGE_BEFORE: BEFORE, STARTUP_BEFORE: startup_hash(parsed),
    }  # fmt: skip
    path = f"{APPS}/deployments/{name}?fieldManager=paceline&force=true"
    done = rest.call("PATCH", path, stamped(manifest), APPLY)
    assert done.status == 201, done.message
    status = {"conditions": [TOLD], "observedGeneration": 1, "memory": {"pilot": {}}}
    told = rest.call("PATCH", f"{SERVICES}/{name}/status", {"status": status}, MERGE)
    assert told.status == 200, told.message
    return done.body


def engines(rest: Rest, name: str) -> dict[str, Any]:
    """The fleet's Deployment."""
    return rest.call("GET", f"{APPS}/deployments/{name}").body


def image(deployment: dict[str, Any]) -> str:
    return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])


def arguments_of(deployment: dict[str, Any]) -> list[str]:
    return list(deployment["spec"]["template"]["spec"]["containers"][0]["args"])


def remembered(rest: Rest, name: str) -> dict[str, Any]:
    """What its status says it was started with."""
    status = rest.call("GET", f"{SERVICES}/{name}").body.get("status", {})
    found: dict[str, Any] = status.get("memory", {}).get(KEY, {})
    return found


def settled(rest: Rest, operator: OperatorProcess, name: str) -> dict[str, Any]:
    """The Deployment once the operator has made it its own."""
    operator.eventually(lambda: remembered(rest, name).get("image"))
    operator.eventually(
        lambda: IMAGE_BEFORE not in engines(rest, name)["metadata"].get("annotations", {})
    )
    return engines(rest, name)


@pytest.mark.behaviour(
    "an operator that takes over a fleet of an earlier version restarts nothing of it",
    report="what a fleet was started with moved from the Deployment to the status: an upgrade of "
    "the chart rolled every fleet at once",
)
def test_a_fleet_of_an_earlier_version_goes_on_as_it_is(
    rest: Rest, tmp_path: Path, fleets: FleetApi
) -> None:
    name = "kept"
    before = made_before(rest, name)
    with operator_process(fleets.server.kubeconfig, tmp_path, "kept", SETTINGS) as operator:
        found = settled(rest, operator, name)
        assert found["spec"]["template"] == before["spec"]["template"]
        assert found["spec"]["strategy"] == before["spec"]["strategy"]
        known = {"image": BEFORE, "strategy": "Replace"}
        operator.eventually(lambda: remembered(rest, name).items() >= known.items())
        assert LIMIT not in arguments_of(found)
        # The next change of what engines start with takes image and arguments of now.
        body: dict[str, Any] = {"spec": {"engine": {"maxNumSeqs": 8}}}
        assert rest.call("PATCH", f"{SERVICES}/{name}", body, MERGE).status == 200
        operator.eventually(lambda: image(engines(rest, name)) == NOW)
        assert LIMIT in arguments_of(engines(rest, name))


def test_what_someone_else_wrote_there_is_not_taken_over(
    rest: Rest, tmp_path: Path, fleets: FleetApi
) -> None:
    name = "forged"
    made_before(rest, name)
    forged = {"metadata": {"annotations": {IMAGE_BEFORE: "evil:1"}}}
    path = f"{APPS}/deployments/{name}?fieldManager=stranger"
    assert rest.call("PATCH", path, forged, MERGE).status == 200
    with operator_process(fleets.server.kubeconfig, tmp_path, "forged", SETTINGS) as operator:
        operator.eventually(lambda: remembered(rest, name).get("image") == NOW)
        assert image(engines(rest, name)) == NOW


def test_what_engines_are_started_with_is_in_the_status_first(
    rest: Rest, tmp_path: Path, fleets: FleetApi
) -> None:
    """Versions on a server grow with every write, whatever of."""
    name = "ahead"
    made_before(rest, name)
    with operator_process(fleets.server.kubeconfig, tmp_path, "ahead", SETTINGS) as operator:
        settled(rest, operator, name)
        begin = rest.call("GET", SERVICES).body["metadata"]["resourceVersion"]
        body: dict[str, Any] = {"spec": {"engine": {"maxNumSeqs": 8}}}
        assert rest.call("PATCH", f"{SERVICES}/{name}", body, MERGE).status == 200
        operator.eventually(lambda: remembered(rest, name).get("image") == NOW)
        states = seen_since(fleets, SERVICES, begin)
        said = next(int(each["metadata"]["resourceVersion"]) for each in states
                    if NOW in each["status"]["memory"][KEY].values())  # fmt: skip
        states = seen_since(fleets, f"{APPS}/deployments", begin)
        started = next(int(each["metadata"]["resourceVersion"]) for each in states
                       if image(each) == NOW)  # fmt: skip
        assert said < started
