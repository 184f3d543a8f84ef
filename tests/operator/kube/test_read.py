"""Events of one pod among others, on a real API server, as a kubelet writes them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from paceline_operator.domain.pod_event import PodEvent, newest
from paceline_operator.kube.client import KubeClient, load_configuration
from paceline_operator.kube.read import fetch_events
from tests.support.fleet import NOW_S, moment
from tests.support.fleet_api import FleetApi

pytestmark = pytest.mark.apiserver


@pytest.fixture
async def client(fleets: FleetApi, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KubeClient]:
    monkeypatch.setenv("KUBECONFIG", str(fleets.server.kubeconfig))
    async with KubeClient(await load_configuration()) as made:
        yield made


def by_kubelet(uid: str, reason: str, kind: str, message: str, at_s: float) -> dict[str, Any]:
    """A core event of the old form."""
    return {
        "metadata": {"name": f"{uid}.{reason.lower()}", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default", "uid": uid},
        "reason": reason, "type": kind, "message": message, "count": 3,
        "firstTimestamp": moment(at_s - 30), "lastTimestamp": moment(at_s),
        "source": {"component": "kubelet"},
    }  # fmt: skip


async def test_only_the_events_of_the_pod_are_read(client: KubeClient) -> None:
    path = "/api/v1/namespaces/default/events"
    said = 'MountVolume.SetUp failed for volume "model": hostPath type check failed'
    for body in (
        by_kubelet("one", "Scheduled", "Normal", "assigned", NOW_S - 60),
        by_kubelet("one", "FailedMount", "Warning", said, NOW_S),
        by_kubelet("other", "Failed", "Warning", "of another pod", NOW_S + 5),
    ):
        await client.write("POST", path, body)
    items = await fetch_events(client, "default", "one")
    assert len(items) == 2
    assert newest(items) == PodEvent("FailedMount", said, warning=True)
