"""HAProxy in front of the engines: least connections, each request balanced anew.

Servers come from DNS (SRV records of the headless Service hold ready pods only), so a
changing fleet needs no new configuration. Checks follow the pods' own readiness, which goes
false at the start of a drain. Answers of engines pass through as they are, 429 included; a
503 (draining) is first tried on another pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline_operator.api.v1alpha1 import InferenceServiceSpec
from paceline_operator.domain.contract import (
    API_PORT,
    DRAIN_GRACE_SECONDS,
    HEALTH_PORT,
    STOP_MARGIN_SECONDS,
    HealthPath,
)
from paceline_operator.domain.field_set import owns
from paceline_operator.domain.names import PROXY, derive, labels
from paceline_operator.domain.overlay import lay_over
from paceline_operator.domain.platform import Platform
from paceline_operator.domain.pod import container_security, pod_security

MAX_SERVERS = 64
REPLICAS = 1
AT_REST = 0
"""Replicas of a proxy that is done without: it goes with its service, or is wanted again."""
CONFIG_DIR = "/etc/paceline/proxy"
CONFIG_FILE = "haproxy.cfg"

_CONFIG = """\
global
    log stdout format raw local0 warning
    maxconn 4096
    nbthread 1
    hard-stop-after {drain}s

defaults
    mode http
    log global
    timeout connect 1s
    timeout client 3600s
    timeout server 3600s
    timeout http-request 60s
    timeout http-keep-alive 60s
    timeout queue 10s
    option http-server-close
    option http-no-delay
    option abortonclose
    option redispatch 1
    retries 3
    retry-on conn-failure 503

resolvers cluster
    parse-resolv-conf
    accepted_payload_size 8192
    timeout resolve 1s
    timeout retry 1s
    hold valid 1s
    hold obsolete 0s

frontend api
    bind :{api}
    option forwardfor
    default_backend engines

backend engines
    balance leastconn
    option httpchk
    http-check send meth GET uri {ready}
    http-check expect status 200
    timeout check 2s
    default-server check port {health} inter 500ms fall 2 rise 1
    server-template engine 1-{servers} {srv} resolvers cluster init-addr none

frontend health
    bind :{health}
    http-request return status 503 if {{ path {ready} }} {{ nbsrv(engines) lt 1 }}
    http-request return status 200 content-type text/plain string "ok"
"""


def replicas(live: Mapping[str, Any] | None) -> int | None:
    """Replicas to declare for a proxy that is wanted; None to leave them as they are.

    Only none at all breaks serving. A number above is that of whoever wrote it, an autoscaler
    for instance, and stays; ours is given up the moment someone else's replaces it.

    Args:
        live: The proxy's Deployment as last seen, None where there is none.
    """
    number = REPLICAS if live is None else int(live["spec"].get("replicas", REPLICAS))
    if live is None or number == AT_REST:
        return REPLICAS
    return REPLICAS if number == REPLICAS and owns(live, "f:spec", "f:replicas") else None


def config(name: str, namespace: str, spec: InferenceServiceSpec, domain: str) -> str:
    """HAProxy's configuration for one fleet; its resolver knows no search domains."""
    return _CONFIG.format(
        api=API_PORT,
        health=HEALTH_PORT,
        ready=HealthPath.READY.value,
        servers=MAX_SERVERS,
        drain=spec.rollout.drain_seconds,
        srv=f"_http._tcp.{derive(name, 'pods')}.{namespace}.svc.{domain}",
    )


def template(
    name: str, spec: InferenceServiceSpec, platform: Platform, config_digest: str
) -> dict[str, Any]:
    """Pod template of the proxy; a new configuration rolls it by its digest."""
    built = {
        "metadata": {
            "labels": labels(name, PROXY),
            "annotations": {"paceline.dev/config": config_digest},
        },
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": (
                DRAIN_GRACE_SECONDS + spec.rollout.drain_seconds + STOP_MARGIN_SECONDS
            ),
            "securityContext": pod_security(),
            "containers": [_container(platform)],
            "volumes": [{"name": "config", "configMap": {"name": derive(name, "proxy")}}],
        },
    }
    return lay_over(built, platform.proxy_pod_overlay)


def _container(platform: Platform) -> dict[str, Any]:
    return {
        "name": PROXY,
        "image": platform.proxy_image,
        "imagePullPolicy": platform.image_pull_policy,
        "command": ["haproxy", "-db", "-f", f"{CONFIG_DIR}/{CONFIG_FILE}"],
        "ports": [
            {"name": "http", "containerPort": API_PORT},
            {"name": "health", "containerPort": HEALTH_PORT},
        ],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
        "securityContext": container_security(),
        # Ready means that it knows a ready engine: DNS and checks reach it after the engine's
        # own readiness, and until then it could only answer 503.
        "readinessProbe": {**_probe(HealthPath.READY), "periodSeconds": 1, "failureThreshold": 1},
        "livenessProbe": {**_probe(HealthPath.LIVE), "periodSeconds": 10, "failureThreshold": 6},
        "lifecycle": {"preStop": {"exec": {"command": _soft_stop()}}},
        "volumeMounts": [{"name": "config", "mountPath": CONFIG_DIR, "readOnly": True}],
    }


def _probe(path: HealthPath) -> dict[str, Any]:
    return {"httpGet": {"path": path.value, "port": HEALTH_PORT}}


def _soft_stop() -> list[str]:
    # SIGTERM would cut running streams. SIGUSR1 lets them end; the loop holds the kubelet's
    # SIGTERM back until the process, and with it this container, is gone.
    script = f"sleep {DRAIN_GRACE_SECONDS}; kill -USR1 1; while :; do sleep 1; done"
    return ["/bin/sh", "-c", script]
