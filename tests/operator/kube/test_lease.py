"""Leader election on a real API server."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from paceline_operator.kube.client import KubeClient, load_configuration
from paceline_operator.kube.errors import LeaseLostError
from paceline_operator.kube.lease import LeaderLease, LeaseTerms, boot_clock
from paceline_operator.kube.resource import LEASE
from tests.support.apiserver import free_ports
from tests.support.fleet_api import FleetApi

pytestmark = pytest.mark.apiserver
_numbers = itertools.count()


@dataclass
class Clock:
    """Time that passes when the test says so."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
async def client(fleets: FleetApi, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KubeClient]:
    monkeypatch.setenv("KUBECONFIG", str(fleets.server.kubeconfig))
    async with KubeClient(await load_configuration()) as made:
        yield made


@pytest.fixture
def name() -> str:
    return f"lease-{next(_numbers)}"


def lease(client: KubeClient, name: str, who: str, clock: Clock) -> LeaderLease:
    terms = LeaseTerms(namespace="default", name=name, identity=who, renew_s=0.05)
    return LeaderLease(client, terms, clock)


async def holder(client: KubeClient, name: str) -> str:
    found = await client.get(LEASE.path("default", name))
    return str(found["spec"]["holderIdentity"])


async def test_the_first_leads(client: KubeClient, name: str) -> None:
    one = lease(client, name, "one", Clock())
    with pytest.raises(LeaseLostError):
        one.check()
    await one.acquire()
    one.check()
    assert await holder(client, name) == "one"


async def test_a_second_waits_for_the_expiry_it_has_seen_itself(
    client: KubeClient, name: str
) -> None:
    clock = Clock()
    await lease(client, name, "one", clock).acquire()
    other = lease(client, name, "two", clock)
    waiting = asyncio.create_task(other.acquire())
    done, _ = await asyncio.wait({waiting}, timeout=0.5)
    assert not done
    clock.now_s += 16
    await waiting
    assert await holder(client, name) == "two"


async def test_the_guard_closes_before_another_may_lead(client: KubeClient, name: str) -> None:
    clock = Clock()
    one = lease(client, name, "one", clock)
    await one.acquire()
    clock.now_s += 10.1
    with pytest.raises(LeaseLostError, match="not renewed in time"):
        one.check()


async def test_a_leader_that_was_overtaken_notices(client: KubeClient, name: str) -> None:
    clock = Clock()
    one, two = lease(client, name, "one", clock), lease(client, name, "two", clock)
    await one.acquire()
    taking = asyncio.create_task(two.acquire())
    await asyncio.wait({taking}, timeout=0.3)
    clock.now_s += 16
    await taking
    with pytest.raises(LeaseLostError):
        await one.keep()


async def test_a_lease_given_up_is_free_at_once(client: KubeClient, name: str) -> None:
    one = lease(client, name, "one", Clock())
    await one.acquire()
    await one.release()
    await asyncio.wait_for(lease(client, name, "two", Clock()).acquire(), 5)
    assert await holder(client, name) == "two"


async def test_a_lease_of_another_is_not_given_up(client: KubeClient, name: str) -> None:
    clock = Clock()
    one, two = lease(client, name, "one", clock), lease(client, name, "two", clock)
    await one.acquire()
    taking = asyncio.create_task(two.acquire())
    await asyncio.wait({taking}, timeout=0.3)
    clock.now_s += 16
    await taking
    await one.release()
    assert await holder(client, name) == "two"


async def test_whom_a_second_waits_for_is_told_once(
    client: KubeClient, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    await lease(client, name, "one", clock).acquire()
    caplog.set_level(logging.INFO)
    waiting = asyncio.create_task(lease(client, name, "two", clock).acquire())
    await asyncio.wait({waiting}, timeout=0.5)
    assert [r.getMessage() for r in caplog.records if "stands by" in r.getMessage()] == [
        f"two stands by: one holds lease default/{name}"
    ]
    await ended(waiting)


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


def refused(client: KubeClient, namespace: str, name: str) -> LeaderLease:
    terms = LeaseTerms(namespace=namespace, name=name, identity="one", renew_s=0.2)
    return LeaderLease(client, terms, Clock())


async def told(
    asking: LeaderLease, caplog: pytest.LogCaptureFixture, seconds: float = 1.0
) -> list[str]:
    """Warnings of a process that asks in vain."""
    trying = asyncio.create_task(asking.acquire())
    await asyncio.wait({trying}, timeout=seconds)
    assert not trying.done()
    await ended(trying)
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


@pytest.mark.behaviour(
    "a process that may not take the Lease says which, where, and what it lacks",
    report="a process without the right to its Lease said nothing and was ready",
)
async def test_a_right_that_is_missing_is_told_once(
    fleets: FleetApi, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(fleets.server.kubeconfig_for("nobody")))
    async with KubeClient(await load_configuration()) as nobody:
        asking = refused(nobody, "default", name)
        (text,) = await told(asking, caplog)
        assert asking.refusal in text
        assert asking.refusal
    assert f"lease default/{name}: " in text
    assert "forbidden" in text
    assert "grant get, create and update of leases (coordination.k8s.io) in namespace" in text


async def test_a_login_that_is_refused_is_no_missing_right(
    fleets: FleetApi,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    known = yaml.safe_load(fleets.server.kubeconfig.read_text())
    known["users"][0]["user"] = {"token": "expired"}
    config = tmp_path / "config"
    config.write_text(yaml.safe_dump(known))
    monkeypatch.setenv("KUBECONFIG", str(config))
    async with KubeClient(await load_configuration()) as stranger:
        (text,) = await told(refused(stranger, "default", name), caplog)
    assert "give the operator's service account a token that the server takes" in text


@pytest.mark.parametrize(
    ("namespace", "lease_name", "said"),
    [
        ("nowhere", "x", "create namespace nowhere, or have leaseNamespace name another"),
        ("default", "No_Name", "set leaseName and leaseNamespace to what the server takes"),
    ],
)
async def test_a_place_where_no_lease_can_be_is_told_once(
    client: KubeClient,
    caplog: pytest.LogCaptureFixture,
    namespace: str,
    lease_name: str,
    said: str,
) -> None:
    (text,) = await told(refused(client, namespace, lease_name), caplog)
    assert said in text


async def test_a_refusal_that_has_ended_is_forgotten(client: KubeClient, name: str) -> None:
    one = lease(client, name, "one", Clock())
    one.refusal = "no right"
    await one.acquire()
    assert one.refusal == ""


async def test_a_leader_cut_off_from_the_server_gives_up_before_the_lease_expires(
    client: KubeClient, name: str
) -> None:
    terms = LeaseTerms(
        namespace="default", name=name, identity="one", duration_s=3.0, deadline_s=1.0, renew_s=0.1
    )
    cut_off = LeaderLease(client, terms)
    await cut_off.acquire()
    (closed,) = free_ports(1)
    client._configuration.host = f"https://127.0.0.1:{closed}"
    began = boot_clock()
    with pytest.raises(LeaseLostError, match="not renewed in time"):
        await cut_off.keep()
    assert boot_clock() - began < terms.duration_s
