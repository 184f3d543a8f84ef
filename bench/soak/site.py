"""The server's application and its engine, put together on a virtual clock."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench.soak.in_process import InProcessClient
from bench.soak.watch import Sample, rss_bytes
from paceline_engine.main import prepare
from paceline_engine.server.api import create_api
from paceline_engine.server.envelope import Envelope
from paceline_engine.server.lifecycle import Startup, create_service
from paceline_engine.server.options import parse
from paceline_engine.server.service import Service

FLAGS = (
    *("serve", "--device=simulated", "--step-coefficients=base_ms=15,per_token_ms=0.05"),
    *("--host=127.0.0.1", "--port=0", "--health-port=0", "--admin-port=0"),
    *("--max-model-len=2048", "--max-num-batched-tokens=512", "--max-num-seqs=32"),
    # 4096 tokens: prompts are preempted, cached blocks evicted.
    *("--kv-cache-memory=512Mi", "--prefix-cache-retention-seconds=120"),
    *("--max-queued-requests=20000", "--max-queued-tokens=100000000", "--max-projected-kv=1000"),
)


@dataclass(frozen=True, slots=True)
class Site:
    """What runs, and what can be looked into.

    Attributes:
        app: The API port's application.
        client: The engine.
        service: What the routes share.
    """

    app: Envelope
    client: InProcessClient
    service: Service

    def look(self, at_s: float, calls: int) -> Sample:
        """Counts everything; call it while nothing is in progress, with the calls that ended."""
        self.client.scheduler.check_idle()
        return Sample(
            at_s=at_s,
            calls=calls,
            rss_bytes=rss_bytes(),
            objects=len(gc.get_objects()),
            tasks=len(asyncio.all_tasks()),
            timers=self.client.armed_timers(),
            blocks_held=self.client.scheduler.pool.num_held,
            waiting=self.service.admission.requests,
            streams=self.client.open_streams,
        )


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    """Starts it all on the running virtual loop."""
    startup = prepare(parse(FLAGS))
    _close_ports(startup)
    client = InProcessClient(startup.config)
    service = create_service(startup, client, clock=asyncio.get_running_loop().time)
    await client.start()
    try:
        yield Site(Envelope(create_api(service, None), service), client, service)
    finally:
        await client.stop()


def _close_ports(startup: Startup) -> None:
    for bound in (startup.ports.api, startup.ports.health, startup.ports.admin):
        bound.close()
