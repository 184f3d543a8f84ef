"""Events on a real API server: told once, counted when repeated."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from paceline_operator.kube.client import KubeClient, load_configuration
from paceline_operator.kube.errors import LeaseLostError
from paceline_operator.kube.event import QUIET_S, EventRecorder, Note
from paceline_operator.kube.resource import EVENT
from tests.support.fleet import NOW_S
from tests.support.fleet_api import FleetApi

pytestmark = pytest.mark.apiserver
NOTE = Note("TtftPressure", "Raise", "Budget 256 -> 512.")


@pytest.fixture
async def client(fleets: FleetApi, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KubeClient]:
    monkeypatch.setenv("KUBECONFIG", str(fleets.server.kubeconfig))
    async with KubeClient(await load_configuration()) as made:
        yield made


def about(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}}


async def told(client: KubeClient, name: str) -> list[dict[str, Any]]:
    """Not what the API server tells of itself, which it does about things of any name."""
    items = (await client.get(EVENT.path("default")))["items"]
    about_ours = [each for each in items if each["regarding"].get("kind") == "InferenceService"]
    return [each for each in about_ours if each["regarding"].get("name") == name]


async def test_a_note_becomes_an_event_about_the_object(client: KubeClient) -> None:
    recorder = EventRecorder(client, "operator-1", lambda: NOW_S)
    await recorder.tell(about("one"), NOTE)
    (event,) = await told(client, "one")
    assert (event["reason"], event["action"], event["note"]) == (
        "TtftPressure", "Raise", "Budget 256 -> 512.",
    )  # fmt: skip
    assert (event["type"], event["regarding"]["kind"]) == ("Normal", "InferenceService")


async def test_a_repeat_is_counted(client: KubeClient) -> None:
    now = [NOW_S]
    recorder = EventRecorder(client, "operator-1", lambda: now[0])
    for _ in range(3):
        await recorder.tell(about("two"), NOTE)
        now[0] += 5
    (event,) = await told(client, "two")
    assert event["series"]["count"] == 3


async def test_after_a_quiet_time_it_is_news_again(client: KubeClient) -> None:
    now = [NOW_S]
    recorder = EventRecorder(client, "operator-1", lambda: now[0])
    await recorder.tell(about("three"), NOTE)
    now[0] += QUIET_S + 1
    await recorder.tell(about("three"), NOTE)
    assert len(await told(client, "three")) == 2


async def test_other_figures_are_the_same_event_but_another_action_is_not(
    client: KubeClient,
) -> None:
    recorder = EventRecorder(client, "operator-1", lambda: NOW_S)
    await recorder.tell(about("four"), NOTE)
    await recorder.tell(about("four"), Note(NOTE.reason, NOTE.action, "Budget 512 -> 768."))
    (event,) = await told(client, "four")
    assert event["series"]["count"] == 2
    await recorder.tell(about("four"), Note(NOTE.reason, "Lower", "Budget 768 -> 512."))
    assert len(await told(client, "four")) == 2


async def test_an_event_that_was_not_written_is_written_at_the_next_occasion(
    client: KubeClient,
) -> None:
    recorder = EventRecorder(client, "operator-1", lambda: NOW_S)
    here = about("seven")
    away = {"metadata": {**here["metadata"], "namespace": "absent"}}
    await recorder.tell(away, NOTE)
    await recorder.tell(here, NOTE)
    assert len(await told(client, "seven")) == 1


async def test_what_cannot_be_told_stops_nobody(
    fleets: FleetApi, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(fleets.server.kubeconfig_for("mute")))
    async with KubeClient(await load_configuration()) as stranger:
        await EventRecorder(stranger, "operator-1", lambda: NOW_S).tell(about("five"), NOTE)
    assert "event TtftPressure not written" in caplog.text


async def test_a_lost_lease_does(client: KubeClient) -> None:
    def refuse() -> None:
        raise LeaseLostError("gone")

    client.guard = refuse
    with pytest.raises(LeaseLostError):
        await EventRecorder(client, "operator-1", lambda: NOW_S).tell(about("six"), NOTE)
