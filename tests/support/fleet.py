"""Objects for tests of the operator: specs, pods, Deployments as the API server shows them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from paceline_operator.api.v1alpha1 import InferenceServiceSpec
from paceline_operator.domain.names import (
    ANNOTATION_DRAINING,
    ANNOTATION_TEMPLATE,
    ENGINE,
    derive,
    labels,
)
from paceline_operator.domain.platform import Platform
from paceline_operator.domain.pods import PodView

PLATFORM = Platform(engine_image="engine:1", proxy_image="haproxy:2.6")
NOW_S = 1_800_000_000.0


def spec(**fields: Any) -> InferenceServiceSpec:
    """A simulated fleet, with what a test cares about set."""
    given: dict[str, Any] = {"engine": {"device": {"type": "Simulated"}}, **fields}
    return InferenceServiceSpec.model_validate(given)


def moment(seconds: float) -> str:
    """A time as the API writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(name: str, *, ready: bool = True, created_s: float = NOW_S - 600, **fields: Any) -> PodView:
    """A pod as the pure rules see it."""
    return PodView(name=name, uid=f"uid-{name}", ready=ready, created_s=created_s, **fields)


def pod_object(
    service: str,
    name: str,
    *,
    ip: str | None = None,
    ready: bool = True,
    template: str = "",
    draining_since_s: float | None = None,
) -> dict[str, Any]:
    """A pod as the API server shows it, without what it sets itself."""
    annotations = {ANNOTATION_TEMPLATE: template}
    if draining_since_s is not None:
        annotations[ANNOTATION_DRAINING] = moment(draining_since_s)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": labels(service, ENGINE),
            "annotations": annotations,
            "ownerReferences": [made_by(derive(service))],
        },
        "spec": {"containers": [{"name": "engine", "image": "engine:1"}]},
        "status": pod_status(ip=ip, ready=ready),
    }


def made_by(deployment: str) -> dict[str, Any]:
    """Reference of a pod to the ReplicaSet it was made for."""
    return {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{deployment}-5d8f9c7b6",
        "uid": "0e1d", "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip


def pod_status(*, ip: str | None, ready: bool) -> dict[str, Any]:
    """Status of a running pod."""
    status: dict[str, Any] = {
        "phase": "Running",
        "conditions": [
            {
                "type": "Ready",
                "status": "True" if ready else "False",
                "lastTransitionTime": moment(NOW_S - 500),
            }
        ],
        "containerStatuses": [
            {
                "name": "engine", "image": "engine:1", "imageID": "", "ready": ready,
                "restartCount": 0, "state": {"running": {"startedAt": moment(NOW_S - 590)}},
            }
        ],
    }  # fmt: skip
    if ip is not None:
        status |= {"podIP": ip, "podIPs": [{"ip": ip}]}
    return status


def deployment_status(replicas: int, generation: int) -> dict[str, Any]:
    """Status of a Deployment whose rollout is done."""
    return {
        "observedGeneration": generation,
        "replicas": replicas,
        "updatedReplicas": replicas,
        "readyReplicas": replicas,
        "availableReplicas": replicas,
        "conditions": [
            {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}
        ],
    }


def deployment_name(service: str) -> str:
    """Name of the engines' Deployment."""
    return derive(service)
