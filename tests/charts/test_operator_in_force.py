"""The operator under nothing but the chart's ServiceAccount and the chart's settings."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.apiserver import free_ports
from tests.support.chart import install, make_namespace, template
from tests.support.fleet_api import FleetApi, inference_service
from tests.support.leash import leashed
from tests.support.rest import MERGE

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(360)]

WITHIN_S = 45.0
CHILDREN = {
    "/apis/apps/v1/namespaces/{}/deployments": {"one", "one-proxy"},
    "/api/v1/namespaces/{}/services": {"one", "one-pods"},
    "/api/v1/namespaces/{}/configmaps": {"one-tunables", "one-proxy"},
    "/api/v1/namespaces/{}/secrets": {"one-admin"},
}


@dataclass(frozen=True, slots=True)
class Running:
    """An operator process and what it wrote."""

    process: subprocess.Popen[bytes]
    log: Path
    probes: list[str]

    def text(self) -> str:
        return self.log.read_text(errors="replace")


@contextmanager
def operator(fleets: FleetApi, namespace: str, values: dict[str, Any]) -> Iterator[Running]:
    """Install the chart's rights, then run the program with its settings as its account."""
    make_namespace(fleets.rest, namespace)
    rendered = template(values, "--namespace", namespace)
    install(fleets.rest, rendered)
    place = fleets.server.directory / f"operator-{namespace}"
    place.mkdir()
    settings, log = place / "settings.yaml", place / "log"
    settings.write_text(rendered.only("ConfigMap")["data"]["settings.yaml"])
    port = free_ports(1)[0]
    container = rendered.container
    paths = {container[key]["httpGet"]["path"] for key in container if key.endswith("Probe")}
    user = f"system:serviceaccount:{namespace}:paceline"
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(place),
        "KUBECONFIG": str(fleets.server.kubeconfig_for(user, "system:serviceaccounts")),
        "PACELINE_SETTINGS": str(settings),
        "PACELINE_HTTP_PORT": str(port),
        "POD_NAME": "paceline-0",
        "POD_NAMESPACE": namespace,
    }
    program = Path(sys.executable).parent / rendered.container["command"][0]
    with log.open("wb") as out:
        process = subprocess.Popen(leashed([str(program)]), env=env, stdout=out, stderr=out)
    try:
        yield Running(process, log, [f"http://127.0.0.1:{port}{path}" for path in sorted(paths)])
    finally:
        process.terminate()
        try:
            process.wait(30)
        finally:
            process.kill()
            process.wait()


def until(running: Running, what: str, holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + WITHIN_S
    while not holds():
        assert running.process.poll() is None, f"the operator ended:\n{running.text()}"
        assert time.monotonic() < limit, f"not within {WITHIN_S} s: {what}\n{running.text()}"
        time.sleep(0.1)


def names(fleets: FleetApi, path: str) -> set[str]:
    items = fleets.rest.call("GET", path).body["items"]
    return {item["metadata"]["name"] for item in items}


@pytest.mark.parametrize(
    ("namespace", "values"),
    [("all", {}), ("some", {"watchNamespaces": ["fleets"]})],
    ids=["cluster-wide", "watched-namespaces"],
)
def test_a_fleet_comes_up(fleets: FleetApi, namespace: str, values: dict[str, Any]) -> None:
    make_namespace(fleets.rest, "fleets")
    collection = "/apis/paceline.dev/v1alpha1/namespaces/fleets/inferenceservices"
    body = inference_service("one", {"engine": {"device": {"type": "Simulated"}}})
    with operator(fleets, namespace, values) as running:
        made = fleets.rest.call("POST", collection, body)
        assert made.status == 201, made.message
        for path, wanted in CHILDREN.items():
            place = path.format("fleets")
            until(running, f"{wanted}", lambda p=place, w=wanted: w <= names(fleets, p))
        until(running, "a status", lambda: "Ready" in conditions(fleets, collection))
        switch = {"spec": {"routing": {"mode": "Service"}}}
        assert fleets.rest.call("PATCH", f"{collection}/one", switch, MERGE).status == 200
        proxy = "/apis/apps/v1/namespaces/fleets/deployments/one-proxy"
        until(
            running, "no proxy",
            lambda: fleets.rest.call("GET", proxy).body["spec"]["replicas"] == 0,
        )  # fmt: skip
        for url in running.probes:
            until(running, url, lambda u=url: answers(u))
        found = running.text()
        assert running.process.poll() is None
    for path in CHILDREN:
        for name in names(fleets, path.format("fleets")):
            fleets.rest.call("DELETE", f"{path.format('fleets')}/{name}")
    fleets.rest.call("DELETE", f"{collection}/one")
    refused = [line for line in found.splitlines() if "403" in line or "forbidden" in line.lower()]
    assert refused == []
    assert running.process.returncode == 0, running.text()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:  # noqa: S310 - loopback
            return bool(reply.status == 200)
    except OSError:
        return False


def conditions(fleets: FleetApi, collection: str) -> set[str]:
    status = fleets.rest.call("GET", f"{collection}/one").body.get("status", {})
    return {condition["type"] for condition in status.get("conditions", [])}
