"""What an earlier process changed in the last minute, counted on by the next."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from paceline_operator.domain.blast_radius import KEY, Change
from paceline_operator.kube.client import KubeClient, load_configuration
from paceline_operator.reconcile.inheritance import take_over_changes
from tests.operator.reconcile.test_tick import FailingApi, NoMetrics, ObedientEngines, made_context
from tests.support.fleet import NOW_S
from tests.support.fleet_api import FleetApi, inference_service
from tests.support.rest import MERGE

pytestmark = pytest.mark.apiserver

NAMESPACE = "changes-before"
SERVICES = f"/apis/paceline.dev/v1alpha1/namespaces/{NAMESPACE}/inferenceservices"
SPEC = {"engine": {"device": {"type": "Simulated"}}, "scaling": {"mode": "Off"}}
CHANGES = {
    "moved": [[NOW_S - 20.0, 5]],
    "tuned": [[NOW_S - 3.0, 0]],
    "damaged": "no list",
    "new": None,
}


@pytest.fixture
async def client(fleets: FleetApi, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KubeClient]:
    monkeypatch.setenv("KUBECONFIG", str(fleets.server.kubeconfig))
    async with KubeClient(await load_configuration()) as made:
        yield made


@pytest.mark.parametrize("namespaces", [(), (NAMESPACE,)])
async def test_it_is_known_of_all_objects_before_the_first_pass(
    fleets: FleetApi, client: KubeClient, namespaces: tuple[str, ...]
) -> None:
    rest, ctx = fleets.rest, made_context(FailingApi(), ObedientEngines(), NoMetrics())
    ctx.client = client
    rest.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    for name, stored in CHANGES.items():
        made = rest.call("POST", SERVICES, inference_service(name, SPEC))
        assert made.status in (201, 409), made.message
        if stored is not None:
            status = {"status": {"memory": {KEY: stored}}}
            told = rest.call("PATCH", f"{SERVICES}/{name}/status", status, MERGE)
            assert told.status == 200, told.message
    for _ in range(2):  # a list that is tried again counts nothing twice
        await take_over_changes(ctx, namespaces)
    found = [each for each in ctx.changes if each.service[0] == NAMESPACE]
    assert sorted(found, key=lambda each: each.time_s) == [
        Change(time_s=NOW_S - 20.0, service=(NAMESPACE, "moved"), replicas=5),
        Change(time_s=NOW_S - 3.0, service=(NAMESPACE, "tuned")),
    ]
