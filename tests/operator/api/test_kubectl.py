"""What people and GitOps see through kubectl."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.fleet_api import COLLECTION, FleetApi
from tests.support.rest import MERGE
from tests.support.tree import ROOT

pytestmark = pytest.mark.apiserver

SAMPLES = sorted((ROOT / "manifests/samples").glob("*.yaml"))


@pytest.fixture
def fleet(fleets: FleetApi) -> Iterator[FleetApi]:
    """The server with the simulated sample on it, and a status."""
    fleets.server.kubectl("apply", "-f", str(ROOT / "manifests/samples/fleet-simulated.yaml"))
    summary = {"replicas": "2/3", "budget": "256 (1/2)", "ttft": "640/1500ms", "itl": "-/250ms"}
    ready = {
        "type": "Ready", "status": "False", "reason": "PodsStarting",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    status = {
        "summary": summary, "conditions": [ready], "replicas": 3, "selector": "app=fleet",
    }  # fmt: skip
    path = f"{COLLECTION}/fleet-simulated/status"
    assert fleets.rest.call("PATCH", path, {"status": status}, MERGE).status == 200
    yield fleets
    fleets.delete("fleet-simulated")


def test_get_shows_what_matters(fleet: FleetApi) -> None:
    header, row = fleet.server.kubectl("get", "infs").splitlines()
    assert header.split() == ["NAME", "READY", "REPLICAS", "BUDGET", "TTFT", "ITL", "AGE"]
    values = row.split()
    assert values[:-1] == [
        "fleet-simulated", "False", "2/3", "256", "(1/2)", "640/1500ms", "-/250ms",
    ]  # fmt: skip


def test_wide_adds_the_cause(fleet: FleetApi) -> None:
    header, row = fleet.server.kubectl("get", "infs", "-o", "wide").splitlines()
    assert header.split()[-2:] == ["SLOS", "REASON"]
    assert row.split()[-1] == "PodsStarting"


def test_get_all_lists_it(fleet: FleetApi) -> None:
    assert "inferenceservice.paceline.dev/fleet-simulated" in fleet.server.kubectl("get", "all")


def test_scale(fleet: FleetApi) -> None:
    scale = json.loads(
        fleet.server.kubectl("get", "infs", "fleet-simulated", "--subresource=scale", "-o", "json")
    )
    assert scale["status"] == {"replicas": 3, "selector": "app=fleet"}
    fleet.server.kubectl("scale", "infs", "fleet-simulated", "--replicas=5")
    assert fleet.rest.call("GET", f"{COLLECTION}/fleet-simulated").body["spec"]["replicas"] == 5


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
def test_explain(fleets: FleetApi, path: str, words: tuple[str, ...]) -> None:
    text = fleets.server.kubectl("explain", path)
    assert [word for word in words if word not in text] == []


def applied(fleets: FleetApi, manifest: Path, *flags: str) -> Any:
    out = fleets.server.kubectl("apply", "-f", str(manifest), "-o", "json", *flags)
    return json.loads(out)["metadata"]


@pytest.mark.parametrize("flags", [(), ("--server-side",)], ids=["client", "server"])
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_applying_twice_writes_once(fleets: FleetApi, sample: Path, flags: tuple[str, ...]) -> None:
    first = applied(fleets, sample, *flags)
    second = applied(fleets, sample, *flags)
    difference = fleets.server.try_kubectl("diff", "-f", str(sample), *flags)
    fleets.delete(yaml.safe_load(sample.read_text())["metadata"]["name"])
    assert second["resourceVersion"] == first["resourceVersion"]
    assert difference.returncode == 0, difference.stdout
