"""The operator's own code over an API server in memory: store, queue, workers, scraping."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from bench.operator_cost.engines import PER_SERVICE, address, service_name
from bench.operator_cost.memory_api import NAMESPACE, Change, MemoryApi
from paceline_operator.api.choice import Mode
from paceline_operator.domain.blast_radius import Limits
from paceline_operator.domain.contract import HEALTH_PORT
from paceline_operator.domain.platform import Platform
from paceline_operator.kube.client import Object
from paceline_operator.kube.event import EventRecorder
from paceline_operator.kube.resource import INFERENCE_SERVICE, Resource
from paceline_operator.kube.store import Key, Store, key_of, owner_key
from paceline_operator.metrics import DirectSource, HttpFetch
from paceline_operator.reconcile.context import Context
from paceline_operator.reconcile.engine_admin import EngineAdmin
from paceline_operator.reconcile.instruments import Instruments
from paceline_operator.reconcile.queue import WorkQueue

REPLICAS = 4
SPEC: dict[str, Any] = {
    "engine": {"device": {"type": "Simulated"}, "batchTokens": {"min": 128, "max": 8192}},
    "slos": [
        {"name": "ttft", "metric": "TTFT", "targetMs": 500},
        {"name": "itl", "metric": "ITL", "targetMs": 100},
    ],
    "scaling": {"minReplicas": REPLICAS, "maxReplicas": PER_SERVICE},
}


@contextmanager
def engines(count: int, network: str, cores: Sequence[int] = ()) -> Iterator[None]:
    """Run the engines in a process of their own.

    Args:
        count: How many.
        network: First two bytes of their addresses.
        cores: Those it may use, all by default.
    """
    command = [sys.executable, "-m", "bench.operator_cost.engines", "--count", str(count)]
    process = subprocess.Popen([*command, "--network", network], stdout=subprocess.PIPE, text=True)
    try:
        if cores:
            os.sched_setaffinity(process.pid, cores)
        if process.stdout is None or process.stdout.readline().strip() != "ready":
            raise RuntimeError(f"the engines ended with {process.wait()}")
        yield
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@dataclass(slots=True)
class Site:
    """One operator and what it looks after.

    Attributes:
        ctx: The operator's own.
        api: Where it writes.
    """

    ctx: Context
    api: MemoryApi
    network: str
    _used: dict[str, list[int]] = field(default_factory=dict)

    def create(self, count: int) -> None:
        """Services, as a user makes them."""
        for number in range(count):
            metadata = {"name": service_name(number)}
            self.api.create(INFERENCE_SERVICE, {"metadata": metadata, "spec": SPEC})

    def services(self) -> list[Key]:
        """All services."""
        return self.ctx.store.keys(INFERENCE_SERVICE)

    def address(self, pod: str) -> str:
        """A new pod's address, where an engine of its service listens."""
        service = "-".join(pod.split("-")[:2])
        used = self._used.setdefault(service, [])
        used.append(len(used) % PER_SERVICE)
        return address(self.network, int(service.partition("-")[2]) * PER_SERVICE + used[-1])

    def late(self, service: str, *, on: bool) -> None:
        """Give a service too much load, or end that."""
        first = address(self.network, int(service.partition("-")[2]) * PER_SERVICE)
        call(first, f"/late?service={service}&on={int(on)}")

    def moves(self) -> dict[str, int]:
        """Moves of knobs and replicas so far, by service."""
        found: dict[str, int] = {}
        for metric in self.ctx.instruments.decisions.collect():
            for sample in metric.samples:
                if sample.name.endswith("_total") and sample.labels["action"] != "Hold":
                    name = sample.labels["name"]
                    found[name] = found.get(name, 0) + int(sample.value)
        return found


def call(ip: str, path: str) -> None:
    """Tell an engine something."""
    with urllib.request.urlopen(f"http://{ip}:{HEALTH_PORT}{path}", timeout=30):
        pass


@contextmanager
def site(
    session: aiohttp.ClientSession, network: str, clock: Callable[[], float] = time.time
) -> Iterator[Site]:
    """An operator that leads, with nothing to look after yet."""
    holder: list[Site] = []

    def address_of(pod: str) -> str:
        return holder[0].address(pod)

    api = MemoryApi(clock, address_of)
    ctx = Context(
        client=api,
        engines=EngineAdmin(session),
        source=DirectSource(HttpFetch(session)),
        store=Store(),
        queue=WorkQueue(time.monotonic),
        events=EventRecorder(api, "bench", clock),
        platform=Platform(engine_image="engine:1", proxy_image="haproxy:2.6"),
        max_mode=Mode.AUTO,
        clock=clock,
        instruments=Instruments(),
        # The limit on changes would spread the first moves of all services over minutes.
        most_changes=Limits(services=10_000, replicas=10_000),
    )
    holder.append(Site(ctx, api, network))
    api.changed = _watch(ctx)
    yield holder[0]


def _watch(ctx: Context) -> Callable[[Resource, Object, Change], None]:
    """What the operator's watches do with an event, a moment after it."""

    def later(kind: Resource, item: Object, change: Change) -> None:
        if change is Change.DELETED:
            ctx.store.remove(kind, item)
        else:
            ctx.store.put(kind, item)
        owner = key_of(item) if kind == INFERENCE_SERVICE else owner_key(item)
        if owner is not None:
            ctx.queue.add(owner, 0.1)

    def event(kind: Resource, item: Object, change: Change) -> None:
        try:
            asyncio.get_running_loop().call_soon(later, kind, item, change)
        except RuntimeError:
            later(kind, item, change)

    return event


__all__ = ["NAMESPACE", "PER_SERVICE", "Site", "engines", "service_name", "site"]
