"""Pods without a kubelet: real engines on loopback addresses, and the objects that name them.

Engines listen on the default ports of an address of their own, as in a cluster.
The test plays the kubelet: it mirrors an engine's readiness into its pod's status.
"""

from __future__ import annotations

import itertools
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline_operator.domain.contract import ADMIN_PORT, API_PORT, HEALTH_PORT
from tests.support.fleet import deployment_status, pod_object, pod_status
from tests.support.leash import leashed
from tests.support.loopback import loopback
from tests.support.rest import MERGE, Rest
from tests.support.tree import ROOT

ENGINE_PYTHON = ROOT / ".venv-engine/bin/python"
START_S = 120.0
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
_hosts = itertools.count(21)


@dataclass(frozen=True, slots=True)
class EnginePod:
    """A real engine and the pod object that stands for it."""

    name: str
    ip: str
    process: subprocess.Popen[bytes]

    def url(self, port: int, path: str) -> str:
        """Address of a page."""
        return f"http://{self.ip}:{port}{path}"

    def is_ready(self) -> bool:
        """What a readiness probe would see."""
        try:
            with urllib.request.urlopen(self.url(HEALTH_PORT, "/readyz"), timeout=5) as reply:  # noqa: S310
                return bool(reply.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def stream(self, tokens: int) -> Any:
        """Begin a streamed completion; the answer is read as it comes."""
        body = (
            f'{{"model": "fleet", "prompt": "hello there", "max_tokens": {tokens},'
            ' "stream": true, "ignore_eos": true}'
        )
        request = urllib.request.Request(  # noqa: S310 - loopback
            self.url(API_PORT, "/v1/completions"),
            data=body.encode(),
            headers={"Content-Type": "application/json"},
        )
        return urllib.request.urlopen(request, timeout=60)  # noqa: S310 - loopback


@contextmanager
def running_engine(service: str, token: str, directory: Path, *flags: str) -> Iterator[EnginePod]:
    """Start a simulated engine on an address of its own, and wait until it serves."""
    host = next(_hosts)
    name, ip = f"{service}-{host}", loopback(host)
    token_file = directory / f"{name}.token"
    token_file.write_text(token)
    command = [
        str(ENGINE_PYTHON), "-m", "paceline_engine", "serve", "--device=simulated",
        "--served-name=fleet", f"--host={ip}", f"--admin-token-file={token_file}", *flags,
    ]  # fmt: skip
    with (directory / f"{name}.log").open("wb") as sink:
        process = subprocess.Popen(
            leashed(command), stdin=subprocess.DEVNULL, stdout=sink, stderr=sink
        )
    pod = EnginePod(name, ip, process)
    try:
        limit = time.monotonic() + START_S
        while not pod.is_ready():
            log = (directory / f"{name}.log").read_text()
            assert process.poll() is None, f"the engine ended:\n{log}"
            assert time.monotonic() < limit, f"the engine is not ready:\n{log}"
            time.sleep(0.05)
        yield pod
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def engine_pod(
    rest: Rest, service: str, token: str, directory: Path, *flags: str
) -> Iterator[EnginePod]:
    """Start an engine, and create a ready pod for it."""
    with running_engine(service, token, directory, *flags) as pod:
        create_pod(rest, service, pod)
        yield pod


def create_pod(rest: Rest, service: str, pod: EnginePod) -> None:
    """Store the pod object of a running engine."""
    item = pod_object(service, pod.name, template=template_hash(rest, service))
    made = rest.call("POST", PODS, {k: v for k, v in item.items() if k != "status"})
    assert made.status == 201, made.message
    mirror(rest, pod)


def mirror(rest: Rest, pod: EnginePod) -> None:
    """What a kubelet does: write the engine's readiness into the pod's status."""
    status = pod_status(ip=pod.ip, ready=pod.is_ready())
    done = rest.call("PATCH", f"{PODS}/{pod.name}/status", {"status": status}, MERGE)
    assert done.status == 200, done.message


def delete_pod(rest: Rest, name: str) -> None:
    """Remove a pod at once."""
    body = {"gracePeriodSeconds": 0}
    done = rest.call("DELETE", f"{PODS}/{name}", body)
    assert done.status == 200, done.message


def template_hash(rest: Rest, service: str) -> str:
    """Template the service's Deployment makes pods from."""
    found = rest.call("GET", f"{DEPLOYMENTS}/{service}").body
    annotations: dict[str, str] = found["spec"]["template"]["metadata"]["annotations"]
    return annotations["paceline.dev/template-hash"]


def settle(rest: Rest, service: str, replicas: int) -> None:
    """What the Deployment controller does: report a finished rollout."""
    path = f"{DEPLOYMENTS}/{service}"
    generation = rest.call("GET", path).body["metadata"]["generation"]
    status = deployment_status(replicas, generation)
    done = rest.call("PATCH", f"{path}/status", {"status": status}, MERGE)
    assert done.status == 200, done.message


__all__ = [
    "ADMIN_PORT",
    "EnginePod",
    "create_pod",
    "delete_pod",
    "engine_pod",
    "mirror",
    "running_engine",
    "settle",
]
