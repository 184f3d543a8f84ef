"""Live checks of the built cluster, in a namespace of their own that is deleted afterwards."""

import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing, suppress

from e2e.cluster import access, lifecycle
from e2e.cluster.check_objects import (
    ASK_API,
    GLUTTON,
    GREETING,
    NAMESPACE,
    PORT,
    SERVICE,
    TALKER,
    objects,
)
from e2e.cluster.errors import CheckError, ClusterError
from e2e.cluster.host_mounts import environment
from e2e.cluster.progress import Say
from e2e.cluster.settings import API_SERVICE_IP, CLUSTER_DOMAIN, Settings
from e2e.kubectl import Kubectl, KubectlError

_PATIENCE_S = 60
_POLL_S = 0.2
_LOCAL = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def check(settings: Settings, say: Say) -> None:
    """Tries what tests and the demo rely on.

    Raises:
        CheckError: Something does not work.
        ClusterError: There is no built cluster.
    """
    if settings.provider != "built":
        raise ClusterError("only the built cluster has live checks", "unset PACELINE_KUBE_CONTEXT")
    if not lifecycle.is_up(settings):
        raise ClusterError("the cluster is down", "`make cluster-up` starts it")
    kubectl = access.kubectl(settings, NAMESPACE)
    _delete(kubectl)
    try:
        _apply(kubectl, settings)
        kubectl.wait("--for=condition=Ready", f"pod/{TALKER}", timeout_s=_PATIENCE_S)
        say("pod", "Ready")
        for name, attempt in _CHECKS.items():
            attempt(kubectl)
            say(name, "ok")
    finally:
        _delete(kubectl)


def _apply(kubectl: Kubectl, settings: Settings) -> None:
    """A pod needs the namespace's default account, which a controller makes a moment later."""
    namespace, *rest = objects(environment("operator", settings.cache))
    kubectl.apply(namespace)
    kubectl.wait("--for=create", "serviceaccount/default", timeout_s=_PATIENCE_S)
    kubectl.apply(*rest)


def _delete(kubectl: Kubectl) -> None:
    kubectl.run("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=true")


def _dns(kubectl: Kubectl) -> None:
    name = f"kubernetes.default.svc.{CLUSTER_DOMAIN}"
    found = kubectl.run("exec", TALKER, "--", "getent", "ahostsv4", name)
    _expect(found.split()[:1] == [API_SERVICE_IP], f"{name} resolves to {found.strip()!r}")


def _api(kubectl: Kubectl) -> None:
    found = kubectl.run("exec", TALKER, "--", "python", "-c", ASK_API).strip()
    _expect(found.startswith("v1."), f"the API server told a pod its version is {found!r}")


def _logs(kubectl: Kubectl) -> None:
    found = kubectl.run("logs", TALKER)
    _expect(GREETING in found, f"logs hold {found.strip()[-200:]!r}")


def _service_from_pod(kubectl: Kubectl) -> None:
    program = f"import urllib.request as u; print(u.urlopen('http://{SERVICE}', timeout=5).read())"

    def answer() -> str:
        # kube-proxy learns of an endpoint a moment after the pod is Ready.
        with suppress(KubectlError):
            return kubectl.run("exec", TALKER, "--", "python", "-c", program)
        return ""

    found = _wait_for(answer)
    _expect(GREETING in found, f"the Service gave a pod {found.strip()!r}")


def _service_from_host(kubectl: Kubectl) -> None:
    address = kubectl.run("get", "service", SERVICE, "-o", "jsonpath={.spec.clusterIP}")
    found = _wait_for(lambda: _fetch(f"http://{address}/"))
    _expect(found == GREETING, f"the Service's address gave the host {found!r}")


def _port_forward(kubectl: Kubectl) -> None:
    lines = kubectl.stream("port-forward", f"pod/{TALKER}", f":{PORT}")
    with closing(lines):
        line = next(lines, "")
        port = re.search(r"127\.0\.0\.1:(\d+)", line)
        _expect(port is not None, f"port-forward said {line.strip()!r}")
        found = _fetch(f"http://127.0.0.1:{port[1]}/") if port else ""
        _expect(found == GREETING, f"port-forward gave {found!r}")


def _memory_limit(kubectl: Kubectl) -> None:
    def ended() -> str:
        pod = kubectl.json("get", "pod", GLUTTON)
        for status in pod["status"].get("containerStatuses", []):
            if state := status["state"].get("terminated"):
                return str(state["reason"])
        return ""

    reason = _wait_for(ended)
    _expect(reason == "OOMKilled", f"a pod above its memory limit ended with {reason!r}")


_CHECKS: dict[str, Callable[[Kubectl], None]] = {
    "dns": _dns,
    "api from a pod": _api,
    "exec and logs": _logs,
    "service from a pod": _service_from_pod,
    "service from the host": _service_from_host,
    "port-forward": _port_forward,
    "memory limit": _memory_limit,
}


def _fetch(url: str) -> str:
    with suppress(urllib.error.URLError, OSError), _LOCAL.open(url, timeout=5) as reply:
        return str(reply.read().decode())
    return ""


def _wait_for(ask: Callable[[], str]) -> str:
    limit = time.monotonic() + _PATIENCE_S
    while not (found := ask()) and time.monotonic() < limit:
        time.sleep(_POLL_S)
    return found


def _expect(met: bool, problem: str) -> None:  # noqa: FBT001 - reads like an assertion
    if not met:
        raise CheckError(problem, "see `make cluster-status` and the logs")
