"""Pod template of the engines: one container, hardened, probed, and drained on stop."""

from __future__ import annotations

from typing import Any

from paceline_operator.api.v1alpha1 import InferenceServiceSpec
from paceline_operator.domain import compute, model_source
from paceline_operator.domain.arguments import ADMIN_DIR, TUNABLES_DIR, arguments
from paceline_operator.domain.contract import (
    ADMIN_PORT,
    API_PORT,
    COMMAND,
    DRAIN_GRACE_SECONDS,
    HEALTH_PORT,
    STOP_MARGIN_SECONDS,
    HealthPath,
)
from paceline_operator.domain.difference import digest
from paceline_operator.domain.names import ANNOTATION_TEMPLATE, ENGINE, derive, labels
from paceline_operator.domain.overlay import lay_over
from paceline_operator.domain.pinned import Start
from paceline_operator.domain.platform import Platform

STARTUP_PATIENCE_SECONDS = 1800
USER_ID = 65532


def pod_security() -> dict[str, Any]:
    """Security context of a pod: never root, default system-call filter."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER_ID,
        "runAsGroup": USER_ID,
        "fsGroup": USER_ID,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> dict[str, Any]:
    """Security context of a container: no privilege, nothing writable but its volumes."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def stop_seconds(spec: InferenceServiceSpec) -> int:
    """Time a pod gets to end: grace, drain and a margin."""
    return DRAIN_GRACE_SECONDS + spec.rollout.drain_seconds + STOP_MARGIN_SECONDS


def engine_template(
    name: str, spec: InferenceServiceSpec, platform: Platform, start: Start
) -> dict[str, Any]:
    """Pod template of the engines, overlays laid on (installation's first, then the user's).

    Raises:
        SpecError: The model or an overlay cannot be used.
    """
    template = {
        "metadata": {"labels": labels(name, ENGINE)},
        "spec": _pod_spec(name, spec, platform, start),
    }
    template = lay_over(template, platform.engine_pod_overlay)
    template = lay_over(template, spec.template or {})
    return lay_over(
        template, {"metadata": {"annotations": {ANNOTATION_TEMPLATE: digest(template)}}}
    )


def _pod_spec(
    name: str, spec: InferenceServiceSpec, platform: Platform, start: Start
) -> dict[str, Any]:
    weights = model_source.locate(spec.model.uri, platform.host_path_prefixes)
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": stop_seconds(spec),
        "securityContext": pod_security(),
        "containers": [_container(name, spec, platform, start, weights)],
        "volumes": [
            {"name": "admin", "secret": {"secretName": derive(name, "admin")}},
            {"name": "tunables", "configMap": {"name": derive(name, "tunables")}},
            {"name": "tmp", "emptyDir": {}},
            *weights.volumes,
        ],
    }


def _container(
    name: str,
    spec: InferenceServiceSpec,
    platform: Platform,
    start: Start,
    weights: model_source.Weights,
) -> dict[str, Any]:
    chosen = compute.resources(spec.engine, spec.resources)
    return {
        "name": ENGINE,
        "image": start.image,
        "imagePullPolicy": platform.image_pull_policy,
        "command": [COMMAND],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "args": arguments(name, spec, weights, compute.threads(chosen), start.defaults),
        "env": [{"name": item.name, "value": item.value} for item in spec.engine.env],
        "ports": [
            {"name": "http", "containerPort": API_PORT},
            {"name": "health", "containerPort": HEALTH_PORT},
            {"name": "admin", "containerPort": ADMIN_PORT},
        ],
        "resources": chosen,
        "securityContext": container_security(),
        **_probes(spec),
        "volumeMounts": [
            {"name": "admin", "mountPath": ADMIN_DIR, "readOnly": True},
            {"name": "tunables", "mountPath": TUNABLES_DIR, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a volume of the pod's own
            *weights.mounts,
        ],
    }


def _probes(spec: InferenceServiceSpec) -> dict[str, Any]:
    ready = {"path": HealthPath.READY.value, "port": HEALTH_PORT}
    live = {"path": HealthPath.LIVE.value, "port": HEALTH_PORT}
    patience = STARTUP_PATIENCE_SECONDS + (spec.engine.device.load_seconds or 0)
    return {
        "startupProbe": {
            "httpGet": ready, "periodSeconds": 1, "timeoutSeconds": 2, "failureThreshold": patience,
        },
        "readinessProbe": {
            "httpGet": ready, "periodSeconds": 1, "timeoutSeconds": 2, "failureThreshold": 1,
        },
        "livenessProbe": {
            "httpGet": live, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 6,
        },
    }  # fmt: skip
