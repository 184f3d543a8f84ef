"""The shipped ServiceAccount on a real API server: its work is allowed, the rest refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.chart import NAMESPACE, install, make_namespace, template
from tests.support.fleet_api import COLLECTION, FleetApi, inference_service
from tests.support.rest import APPLY, MERGE, Rest

pytestmark = pytest.mark.apiserver

RBAC = "/apis/rbac.authorization.k8s.io/v1"
OWN = f"system:serviceaccount:{NAMESPACE}:paceline"
APPLIED = "?fieldManager=paceline&force=true"
IN_DEFAULT = "namespaces/default"
Call = tuple[str, str, dict[str, Any] | None, str]


@pytest.fixture(scope="module")
def operator(fleets: FleetApi) -> Iterator[Rest]:
    """A client as the operator of a cluster-wide installation; one object to work on."""
    make_namespace(fleets.rest, NAMESPACE)
    install(fleets.rest, template())
    made = fleets.create(inference_service("a", {"engine": {"device": {"type": "Simulated"}}}))
    assert made.status == 201, made.message
    pod = child("v1", "Pod", "a-pod", spec={"containers": [{"name": "engine", "image": "x"}]})
    assert fleets.rest.call("POST", f"/api/v1/{IN_DEFAULT}/pods", pod).status == 201
    yield Rest.to(fleets.server, OWN, "system:serviceaccounts")
    for path in (
        f"apis/apps/v1/{IN_DEFAULT}/deployments/a",
        f"api/v1/{IN_DEFAULT}/configmaps/a-tunables",
    ):
        fleets.rest.call("DELETE", f"/{path}")
    fleets.delete("a")


def child(version: str, kind: str, name: str, **content: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **content}


def deployment(owner_uid: str) -> dict[str, Any]:
    labels = {"app": "a"}
    owner = {
        "apiVersion": "paceline.dev/v1alpha1", "kind": "InferenceService", "name": "a",
        "uid": owner_uid, "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    pod = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "engine", "image": "x"}]},
    }
    spec = {"selector": {"matchLabels": labels}, "template": pod}
    made = child("apps/v1", "Deployment", "a", spec=spec)
    made["metadata"]["ownerReferences"] = [owner]
    return made


def test_its_work_is_allowed(operator: Rest) -> None:
    """One pass over one object, call by call, as the operator makes them."""

    def done(method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        reply = operator.call(method, path, body, kind)
        assert reply.status in (200, 201), f"{method} {path}: {reply.message}"
        return reply.body

    def apply(path: str, body: dict[str, Any]) -> None:
        done("PATCH", f"{path}/{body['metadata']['name']}{APPLIED}", body, APPLY)

    found = done("GET", f"{COLLECTION}/a")
    done("GET", "/apis/paceline.dev/v1alpha1/inferenceservices")
    core, apps = f"/api/v1/{IN_DEFAULT}", f"/apis/apps/v1/{IN_DEFAULT}"
    apply(f"{apps}/deployments", deployment(found["metadata"]["uid"]))
    apply(f"{core}/services", child("v1", "Service", "a", spec={"ports": [{"port": 8000}]}))
    apply(f"{core}/configmaps", child("v1", "ConfigMap", "a-tunables", data={"a": "b"}))
    apply(f"{core}/secrets", child("v1", "Secret", "a-admin", stringData={"token": "t"}))
    done("GET", f"{core}/secrets/a-admin")
    for path in (f"{core}/pods", f"{core}/services", f"{core}/configmaps", f"{apps}/deployments"):
        done("GET", path)
    scale = child("autoscaling/v1", "Scale", "a", spec={"replicas": 2})
    version = done("GET", f"{apps}/deployments/a/scale")["metadata"]["resourceVersion"]
    scale["metadata"] = {"name": "a", "namespace": "default", "resourceVersion": version}
    done("PATCH", f"{apps}/deployments/a/scale{APPLIED}", scale, APPLY)
    cost = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}}
    done("PATCH", f"{core}/pods/a-pod", cost, MERGE)
    done("PATCH", f"{COLLECTION}/a/status", {"status": {"readyReplicas": 1}}, MERGE)
    done("POST", f"/apis/events.k8s.io/v1/{IN_DEFAULT}/events", event())
    done("GET", f"/apis/events.k8s.io/v1/{IN_DEFAULT}/events?fieldSelector=regarding.uid%3Du")
    done("GET", f"/apis/autoscaling/v2/{IN_DEFAULT}/horizontalpodautoscalers")


def event() -> dict[str, Any]:
    regarding = {"apiVersion": "paceline.dev/v1alpha1", "kind": "InferenceService", "name": "a"}
    return child(
        "events.k8s.io/v1", "Event", "a.1", type="Normal", reason="BudgetLowered", action="Tune",
        note="why", eventTime="2026-01-01T00:00:00.000000Z", reportingController="paceline.dev",
        reportingInstance="one", regarding={**regarding, "namespace": "default"},
    )  # fmt: skip


def lease(name: str) -> dict[str, Any]:
    return child("coordination.k8s.io/v1", "Lease", name, spec={"holderIdentity": "one"})


def test_its_lease_is_its_own_and_no_other(operator: Rest, fleets: FleetApi) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
    assert operator.call("POST", path, lease("paceline-leader")).status == 201
    held = operator.call("GET", f"{path}/paceline-leader")
    assert operator.call("PUT", f"{path}/paceline-leader", held.body).status == 200
    assert fleets.rest.call("POST", path, lease("other")).status == 201
    assert operator.call("GET", f"{path}/other").status == 403
    assert operator.call("PUT", f"{path}/other", lease("other")).status == 403
    elsewhere = f"/apis/coordination.k8s.io/v1/{IN_DEFAULT}/leases"
    assert operator.call("POST", elsewhere, lease("paceline-leader")).status == 403


REFUSED: dict[str, Call] = {
    "list Secrets of the cluster": ("GET", "/api/v1/secrets", None, ""),
    "list Secrets of a namespace": ("GET", f"/api/v1/{IN_DEFAULT}/secrets", None, ""),
    "delete a Secret": ("DELETE", f"/api/v1/{IN_DEFAULT}/secrets/a-admin", None, ""),
    "list nodes": ("GET", "/api/v1/nodes", None, ""),
    "change a node": ("PATCH", "/api/v1/nodes/n", {"metadata": {"labels": {"a": "b"}}}, MERGE),
    "create a pod": ("POST", f"/api/v1/{IN_DEFAULT}/pods", child("v1", "Pod", "p"), ""),
    "delete a pod": ("DELETE", f"/api/v1/{IN_DEFAULT}/pods/a-pod", None, ""),
    "run a command in a pod": ("GET", f"/api/v1/{IN_DEFAULT}/pods/a-pod/exec?command=id", None, ""),
    "read a pod's log": ("GET", f"/api/v1/{IN_DEFAULT}/pods/a-pod/log", None, ""),
    "delete a Service": ("DELETE", f"/api/v1/{IN_DEFAULT}/services/a", None, ""),
    "delete a ConfigMap": ("DELETE", f"/api/v1/{IN_DEFAULT}/configmaps/a-tunables", None, ""),
    "delete a Deployment": ("DELETE", f"/apis/apps/v1/{IN_DEFAULT}/deployments/a", None, ""),
    "delete all Deployments": ("DELETE", f"/apis/apps/v1/{IN_DEFAULT}/deployments", None, ""),
    "change a DaemonSet": ("PATCH", f"/apis/apps/v1/{IN_DEFAULT}/daemonsets/d", {}, MERGE),
    "change an object's spec": ("PATCH", f"{COLLECTION}/a", {"spec": {"replicas": 9}}, MERGE),
    "scale an object": ("PATCH", f"{COLLECTION}/a/scale", {"spec": {"replicas": 9}}, MERGE),
    "delete an object": ("DELETE", f"{COLLECTION}/a", None, ""),
    "grant itself rights": (
        "POST",
        f"{RBAC}/clusterrolebindings",
        child(
            "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "b", subjects=[],
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "x"},
        ),
        "",
    ),
    "list roles": ("GET", f"{RBAC}/clusterroles", None, ""),
    "list namespaces": ("GET", "/api/v1/namespaces", None, ""),
    "create a token": (
        "POST",
        f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/paceline/token",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_the_rest_is_refused(operator: Rest, name: str) -> None:
    method, path, body, kind = REFUSED[name]
    reply = operator.call(method, path, body, kind or "application/json")
    assert reply.status == 403, f"{reply.status} {reply.message}"


def test_watched_namespaces_are_the_only_ones(fleets: FleetApi) -> None:
    for name in ("watched", "unwatched", "second"):
        make_namespace(fleets.rest, name)
    values = {"watchNamespaces": ["watched"]}
    install(fleets.rest, template(values, "--namespace", "second"))
    user = "system:serviceaccount:second:paceline"
    operator = Rest.to(fleets.server, user, "system:serviceaccounts")
    for path, found in (
        ("/apis/paceline.dev/v1alpha1/namespaces/{}/inferenceservices", 200),
        ("/api/v1/namespaces/{}/secrets/absent", 404),
    ):
        assert operator.call("GET", path.format("watched")).status == found
        assert operator.call("GET", path.format("unwatched")).status == 403
    assert operator.call("GET", "/apis/paceline.dev/v1alpha1/inferenceservices").status == 403


def bind(rest: Rest, user: str, role: str) -> None:
    name = f"{user}-{role}"
    binding = child(
        "rbac.authorization.k8s.io/v1", "RoleBinding", name,
        subjects=[{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
    )  # fmt: skip
    path = f"{RBAC}/{IN_DEFAULT}/rolebindings"
    assert rest.call("POST", path, binding).status == 201


def test_people_view_and_edit(operator: Rest, fleets: FleetApi) -> None:
    """Bound by hand: the controller that aggregates roles does not run here."""
    assert operator.call("GET", f"{COLLECTION}/a").status == 200
    bind(fleets.rest, "viewer", "paceline-system-paceline-view")
    for role in ("view", "edit"):
        bind(fleets.rest, "editor", f"paceline-system-paceline-{role}")
    viewer, editor = Rest.to(fleets.server, "viewer", "x"), Rest.to(fleets.server, "editor", "x")
    body = inference_service("people", {"engine": {"device": {"type": "Simulated"}}})
    scaled = {"spec": {"replicas": 3}}
    assert viewer.call("GET", COLLECTION).status == 200
    assert viewer.call("POST", COLLECTION, body).status == 403
    assert editor.call("POST", COLLECTION, body).status == 201
    assert viewer.call("GET", f"{COLLECTION}/people/scale").status == 200
    assert viewer.call("PATCH", f"{COLLECTION}/people/scale", scaled, MERGE).status == 403
    assert editor.call("PATCH", f"{COLLECTION}/people/scale", scaled, MERGE).status == 200
    written = {"status": {"readyReplicas": 9}}
    assert editor.call("PATCH", f"{COLLECTION}/people/status", written, MERGE).status == 403
    assert viewer.call("DELETE", f"{COLLECTION}/people").status == 403
    assert editor.call("DELETE", f"{COLLECTION}/people").status == 200
