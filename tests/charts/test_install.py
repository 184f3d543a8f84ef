"""Helm against a real API server: install, upgrade, remove."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.charts.test_template import CHOSEN
from tests.support.chart import CHART, helm, make_namespace, template
from tests.support.fleet_api import FleetApi, fleet_api

pytestmark = pytest.mark.apiserver

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


@pytest.fixture(scope="module")
def fleets() -> Iterator[FleetApi]:
    """A server on which no other test has installed anything."""
    with fleet_api() as api:
        yield api


def run_helm(fleets: FleetApi, *arguments: str) -> str:
    done = helm(*arguments, "--kubeconfig", str(fleets.server.kubeconfig))
    assert done.returncode == 0, done.stderr
    return done.stdout


def generations(fleets: FleetApi, namespace: str) -> dict[str, str]:
    """Version of each object of the release, as the server counts writes."""
    kinds = "deployments,services,configmaps,serviceaccounts,roles,rolebindings"
    selector = "app.kubernetes.io/managed-by=Helm,app.kubernetes.io/name=paceline"
    out = fleets.server.kubectl("get", kinds, "-n", namespace, "-l", selector, "-o", "json")
    items = json.loads(out)["items"]
    return {f"{i['kind']}/{i['metadata']['name']}": i["metadata"]["resourceVersion"] for i in items}


def test_life_of_a_release(fleets: FleetApi) -> None:
    name, namespace = "life", "life"
    place = [name, str(CHART), "--namespace", namespace, "--create-namespace"]
    run_helm(fleets, "upgrade", "--install", *place)
    first = generations(fleets, namespace)
    assert {kind.partition("/")[0] for kind in first} == {
        "Deployment", "Service", "ConfigMap", "ServiceAccount", "Role", "RoleBinding",
    }  # fmt: skip
    run_helm(fleets, "upgrade", *place)
    assert generations(fleets, namespace) == first
    run_helm(fleets, "upgrade", *place, "--set", "maxMode=Recommend")
    changed = {k for k, v in generations(fleets, namespace).items() if first[k] != v}
    assert changed == {"Deployment/life-paceline", "ConfigMap/life-paceline-settings"}
    run_helm(fleets, "uninstall", name, "--namespace", namespace)
    assert generations(fleets, namespace) == {}
    fleets.server.kubectl("get", "crd", "inferenceservices.paceline.dev")


@pytest.mark.behaviour(
    "of two releases that would manage the same objects the second is refused, and names the first",
    report="llm-d/llm-d-autoscaling#1044: several installs on a cluster mixed; replicas flipped",
)
def test_releases_share_no_namespace(fleets: FleetApi) -> None:
    for namespace in ("first", "second", "team-a", "team-b"):
        make_namespace(fleets.rest, namespace)

    def place(release: str, watched: str) -> list[str]:
        values = ["--set", f"watchNamespaces={{{watched}}}"] if watched else ["--reset-values"]
        return ["upgrade", "--install", release, str(CHART), "--namespace", release, *values]

    def refusal(release: str, watched: str) -> str:
        done = helm(*place(release, watched), "--kubeconfig", str(fleets.server.kubeconfig))
        assert done.returncode != 0
        return done.stderr

    run_helm(fleets, *place("first", "team-a"))
    run_helm(fleets, *place("first", "team-a"))  # Itself it does not refuse.
    for watched in ("", "team-b,team-a"):
        told = refusal("second", watched)
        assert "release first in namespace first manages the InferenceServices of team-a" in told
        assert "watchNamespaces" in told
    run_helm(fleets, *place("second", "team-b"))
    run_helm(fleets, "uninstall", "second", "--namespace", "second")
    run_helm(fleets, *place("first", ""))
    assert "of all namespaces already" in refusal("second", "team-b")
    run_helm(fleets, "uninstall", "first", "--namespace", "first")
    run_helm(fleets, *place("second", "team-b"))
    run_helm(fleets, "uninstall", "second", "--namespace", "second")


@pytest.mark.parametrize("values", [{}, CHOSEN], ids=["defaults", "many-values"])
def test_the_server_knows_every_field(fleets: FleetApi, values: dict[str, Any]) -> None:
    """Strictly, so that a misspelt field is no silent loss."""
    for namespace in ("paceline-system", "one", "two"):
        make_namespace(fleets.rest, namespace)
    for each in template(values).objects:
        text = json.dumps(each)
        flags = ("--dry-run=server", "--validate=strict", "-f", "-")
        fleets.server.kubectl("create", *flags, stdin=text)


def test_operator_pod_meets_the_restricted_standard(fleets: FleetApi) -> None:
    namespace = {
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "restricted", "labels": RESTRICTED},
    }  # fmt: skip
    assert fleets.rest.call("POST", "/api/v1/namespaces", namespace).status == 201
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "operator"}, "spec": template().pod,
    }  # fmt: skip
    path = "/api/v1/namespaces/restricted/pods?dryRun=All&fieldValidation=Strict"
    reply = fleets.rest.call("POST", path, pod)
    assert reply.status == 201, reply.message
    loose = {**pod, "spec": {**template().pod, "securityContext": {}}}
    assert fleets.rest.call("POST", path, loose).status == 403
