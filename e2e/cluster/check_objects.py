"""Objects of the live checks: a pod that answers, its Service, and a pod that wants too much."""

from typing import Any

from e2e.cluster.host_mounts import HostEnvironment
from e2e.cluster.images import HOST_IMAGE, NONROOT

NAMESPACE = "paceline-e2e-check"
TALKER = "talker"
SERVICE = "greeting"
"""Name of the Service; the pod's own name would lead it to itself by /etc/hosts."""
GLUTTON = "glutton"
PORT = 8080
GREETING = "paceline check"
MEMORY_LIMIT_MIB = 64

_SERVE = f"""\
import http.server, pathlib
pathlib.Path("/tmp/index.html").write_text("{GREETING}")
print("{GREETING}", flush=True)
serve = http.server.ThreadingHTTPServer
handler = lambda *a: http.server.SimpleHTTPRequestHandler(*a, directory="/tmp")
serve(("", {PORT}), handler).serve_forever()
"""
# Written to, byte by byte: memory that is only reserved counts for nothing.
_TAKE_MEMORY = f"held = b'x' * ({4 * MEMORY_LIMIT_MIB} << 20); print(len(held))"

ASK_API = """\
import json, pathlib, ssl, urllib.request
at = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
trust = ssl.create_default_context(cafile=at / "ca.crt")
head = {"Authorization": "Bearer " + (at / "token").read_text()}
ask = urllib.request.Request("https://kubernetes.default.svc/version", headers=head)
with urllib.request.urlopen(ask, context=trust, timeout=10) as reply:
    print(json.load(reply)["gitVersion"])
"""
"""Program that a pod runs to reach the API server by its name in cluster DNS."""


def objects(host: HostEnvironment) -> list[dict[str, Any]]:
    """All of them, the namespace first.

    Args:
        host: Directories and variables with which Python runs in a pod.
    """
    port = {"port": 80, "targetPort": PORT}
    spec = {"selector": {"app": TALKER}, "ports": [port]}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        _pod(TALKER, _SERVE, host, restart="Always"),
        _pod(GLUTTON, _TAKE_MEMORY, host, restart="Never"),
        {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(SERVICE), "spec": spec},
    ]


def _pod(name: str, program: str, host: HostEnvironment, *, restart: str) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": name,
        "image": HOST_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["python", "-c", program],
        "env": host.env,
        "volumeMounts": [*host.mounts, {"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - pod's
        "resources": {"limits": {"memory": f"{MEMORY_LIMIT_MIB}Mi"}},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": NONROOT,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    if restart == "Always":
        container["readinessProbe"] = {"httpGet": {"path": "/", "port": PORT}, "periodSeconds": 1}
    spec = {
        "restartPolicy": restart,
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        "volumes": [*host.volumes, {"name": "tmp", "emptyDir": {}}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _metadata(name), "spec": spec}


def _metadata(name: str) -> dict[str, Any]:
    return {"name": name, "namespace": NAMESPACE, "labels": {"app": name}}
