"""What people and GitOps see through kubectl."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from paceline_operator.api import v1alpha1
from tests.support.fleet_api import FleetApi
from tests.support.rest import MERGE
from tests.support.tree import ROOT

pytestmark = pytest.mark.apiserver

SAMPLES = sorted((ROOT / "manifests/samples").glob("*.yaml"))
SIMULATED = ROOT / "manifests/samples/fleet-simulated.yaml"
NAMESPACES = "/api/v1/namespaces"
KNOWN_WITHIN_S = 90.0


@dataclass(frozen=True, slots=True)
class Place:
    """A namespace of a test's own: what others leave behind on the server is not in it."""

    api: FleetApi
    namespace: str

    def kubectl(self, *arguments: str) -> str:
        return self.api.server.kubectl("--namespace", self.namespace, *arguments)

    @property
    def path(self) -> str:
        """Path of the simulated sample."""
        root = f"/apis/{v1alpha1.API_VERSION}/namespaces/{self.namespace}"
        return f"{root}/{v1alpha1.PLURAL}/fleet-simulated"


@pytest.fixture(scope="module")
def known(fleets: FleetApi) -> FleetApi:
    """The server once it tells clients of the definition: it serves the objects earlier."""
    limit = time.monotonic() + KNOWN_WITHIN_S
    while (done := fleets.server.try_kubectl("explain", "infs")).returncode:
        assert time.monotonic() < limit, done.stderr
        time.sleep(0.2)
    return fleets


@pytest.fixture
def place(known: FleetApi) -> Iterator[Place]:
    """An empty namespace, left empty."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "kubectl-"}}
    made = known.rest.call("POST", NAMESPACES, body)
    assert made.status == 201, made.message
    place = Place(known, made.body["metadata"]["name"])
    yield place
    place.kubectl("delete", "infs", "--all", "--wait=false")


@pytest.fixture
def fleet(place: Place) -> Place:
    """The simulated sample, with a status."""
    place.kubectl("apply", "-f", str(SIMULATED))
    summary = {"replicas": "2/3", "budget": "256 (1/2)", "ttft": "640/1500ms", "itl": "-/250ms"}
    ready = {
        "type": "Ready", "status": "False", "reason": "PodsStarting",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    status = {
        "summary": summary, "conditions": [ready], "replicas": 3, "selector": "app=fleet",
    }  # fmt: skip
    written = place.api.rest.call("PATCH", f"{place.path}/status", {"status": status}, MERGE)
    assert written.status == 200, written.message
    return place


def test_get_shows_what_matters(fleet: Place) -> None:
    header, row = fleet.kubectl("get", "infs").splitlines()
    assert header.split() == ["NAME", "READY", "REPLICAS", "BUDGET", "TTFT", "ITL", "AGE"]
    values = row.split()
    assert values[:-1] == [
        "fleet-simulated", "False", "2/3", "256", "(1/2)", "640/1500ms", "-/250ms",
    ]  # fmt: skip


def test_wide_adds_the_cause(fleet: Place) -> None:
    header, row = fleet.kubectl("get", "infs", "-o", "wide").splitlines()
    assert header.split()[-2:] == ["SLOS", "REASON"]
    assert row.split()[-1] == "PodsStarting"


def test_get_all_lists_it(fleet: Place) -> None:
    assert "inferenceservice.paceline.dev/fleet-simulated" in fleet.kubectl("get", "all")


def test_scale(fleet: Place) -> None:
    scale = json.loads(
        fleet.kubectl("get", "infs", "fleet-simulated", "--subresource=scale", "-o", "json")
    )
    assert scale["status"] == {"replicas": 3, "selector": "app=fleet"}
    fleet.kubectl("scale", "infs", "fleet-simulated", "--replicas=5")
    assert fleet.api.rest.call("GET", fleet.path).body["spec"]["replicas"] == 5


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("infs", ("OpenAI-compatible", "lowest cost")),
        ("infs.spec.engine.batchTokens", ("max_num_batched_tokens", "initial", "<integer>")),
        ("infs.spec.slos", ("targetMs", "at least")),
        ("infs.spec.replicas", ("kubectl scale",)),
        ("infs.status.conditions", ("SLOFeasible",)),
    ],
)
def test_explain(known: FleetApi, path: str, words: tuple[str, ...]) -> None:
    text = known.server.kubectl("explain", path)
    assert [word for word in words if word not in text] == []


def applied(place: Place, manifest: Path, *flags: str) -> Any:
    out = place.kubectl("apply", "-f", str(manifest), "-o", "json", *flags)
    return json.loads(out)["metadata"]


@pytest.mark.parametrize("flags", [(), ("--server-side",)], ids=["client", "server"])
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_applying_twice_writes_once(place: Place, sample: Path, flags: tuple[str, ...]) -> None:
    first = applied(place, sample, *flags)
    second = applied(place, sample, *flags)
    assert second["resourceVersion"] == first["resourceVersion"]
    # It fails where there is a difference.
    place.kubectl("diff", "-f", str(sample), *flags)
