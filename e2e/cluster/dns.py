"""Cluster DNS: CoreDNS from the multi-call binary, as a Deployment in the host image.

It answers names of the cluster only; others are refused at once, since nothing in the
cluster may reach outside by name.
"""

from pathlib import Path
from typing import Any

from e2e.cluster.images import HOST_IMAGE, NONROOT
from e2e.cluster.settings import CLUSTER_DOMAIN, DNS_SERVICE_IP

NAME = "coredns"
NAMESPACE = "kube-system"
_LABELS = {"k8s-app": "kube-dns"}
_PROGRAM = "/kubebox"

# Answers live a second: a proxy that follows a fleet by DNS must see a pod leave.
COREFILE = f"""\
.:53 {{
    errors
    health :8080
    ready :8181
    kubernetes {CLUSTER_DOMAIN} in-addr.arpa ip6.arpa {{
        ttl 1
    }}
    cache 1
}}
"""


def objects(kubebox: Path) -> list[dict[str, Any]]:
    """Every object of cluster DNS.

    Args:
        kubebox: The multi-call binary on the node.
    """
    return [*_account(), _configuration(), _deployment(kubebox), _service()]


def _account() -> list[dict[str, Any]]:
    watch = ["list", "watch"]
    core = ["endpoints", "services", "pods", "namespaces", "nodes"]
    rules = [
        {"apiGroups": [""], "resources": core, "verbs": watch},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": watch},
    ]
    group = "rbac.authorization.k8s.io"
    role = {"apiGroup": group, "kind": "ClusterRole", "name": f"system:{NAME}"}
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}
    cluster_wide = {"metadata": {"name": f"system:{NAME}"}, "apiVersion": f"{group}/v1"}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata()},
        {**cluster_wide, "kind": "ClusterRole", "rules": rules},
        {**cluster_wide, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]},
    ]


def _configuration() -> dict[str, Any]:
    data = {"Corefile": COREFILE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _metadata(), "data": data}


def _deployment(kubebox: Path) -> dict[str, Any]:
    pod = {
        "serviceAccountName": NAME,
        "priorityClassName": "system-cluster-critical",
        "dnsPolicy": "Default",
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        "containers": [_container()],
        "volumes": [
            {"name": "config", "configMap": {"name": NAME}},
            {"name": "program", "hostPath": {"path": str(kubebox), "type": "File"}},
        ],
    }
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": _LABELS},
        "template": {"metadata": {"labels": _LABELS}, "spec": pod},
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _metadata(), "spec": spec}


def _container() -> dict[str, Any]:
    return {
        "name": NAME,
        "image": HOST_IMAGE,
        "imagePullPolicy": "Never",
        "command": [_PROGRAM, NAME],
        "args": ["-conf", "/etc/coredns/Corefile"],
        "ports": [
            {"name": "dns", "containerPort": 53, "protocol": "UDP"},
            {"name": "dns-tcp", "containerPort": 53, "protocol": "TCP"},
        ],
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": NONROOT,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
        "livenessProbe": {"httpGet": {"path": "/health", "port": 8080}, "failureThreshold": 5},
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/coredns", "readOnly": True},
            {"name": "program", "mountPath": _PROGRAM, "readOnly": True},
        ],
    }


def _service() -> dict[str, Any]:
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
    ]
    spec = {"clusterIP": DNS_SERVICE_IP, "selector": _LABELS, "ports": ports}
    metadata = _metadata("kube-dns")
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _metadata(name: str = NAME) -> dict[str, Any]:
    return {"name": name, "namespace": NAMESPACE, "labels": _LABELS}
