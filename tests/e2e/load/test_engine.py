"""Load against `paceline-engine` itself, with its simulated device."""

from __future__ import annotations

import asyncio
import re
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from e2e.load import arrivals
from e2e.load.mix import parse_mix
from e2e.load.plan import Plan, make_plan
from e2e.load.record import Outcome, Record
from e2e.load.run import Run, Tally
from e2e.load.sender import Target

ENGINE = Path(__file__).parents[3] / ".venv-engine" / "bin" / "paceline-engine"
READY_S = 45.0
Ports = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Engine:
    url: str
    health: str

    async def metric(self, name: str) -> float:
        async with aiohttp.ClientSession() as session, session.get(f"{self.health}/metrics") as got:
            text = await got.text()
        found = re.findall(rf"^paceline_engine_{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)
        return sum(float(value) for value in found)


@asynccontextmanager
async def engine(ports: Ports, *flags: str) -> AsyncIterator[Engine]:
    api, health, admin = ports(), ports(), ports()
    process = await asyncio.create_subprocess_exec(
        str(ENGINE), "serve", "--device", "simulated", "--served-name", "sim", *flags,
        "--host", "127.0.0.1", "--port", str(api), "--health-port", str(health),
        "--admin-port", str(admin), stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        await asyncio.wait_for(_ready(process.stderr), READY_S)
        yield Engine(f"http://127.0.0.1:{api}", f"http://127.0.0.1:{health}")
    finally:
        process.kill()
        await process.communicate()


async def _ready(log: asyncio.StreamReader) -> None:
    seen = []
    async for line in log:
        seen.append(line.decode())
        if "ready after" in seen[-1]:
            return
    pytest.fail(f"the engine ended: {''.join(seen)}")


def plan(mix: str, rate: float, duration_s: float, streamed: float = 1.0) -> Plan:
    return make_plan(
        arrivals.steady(rate, duration_s),
        parse_mix(mix),
        seed=1,
        max_requests=1000,
        evenly=True,
        streamed_share=streamed,
    )


def target(url: str) -> Target:
    return Target(
        url=url,
        model="sim",
        route="completions",
        vocabulary="bytes",
        seed=1,
        ignore_eos=True,
        timeout_s=40.0,
    )


def ignore(_elapsed_s: float, _tally: Tally) -> None:
    pass


async def sent(made: Plan, url: str) -> list[Record]:
    records: list[Record] = []
    await Run(made, target(url), records.append, ignore).run(time.time())
    return sorted(records, key=lambda record: record.id)


async def test_every_token_asked_for_comes_and_is_counted(unused_tcp_port_factory: Ports) -> None:
    made = plan("chat:0.7:5-40:2-20,long:0.3:700-900:4", rate=20.0, duration_s=1.5, streamed=0.8)
    async with engine(unused_tcp_port_factory) as running:
        records = await sent(made, running.url)
        generated = await running.metric("generation_tokens_total")
    assert [r.outcome for r in records] == [Outcome.OK] * len(made.requests)
    for record, request in zip(records, made.requests, strict=True):
        assert record.tokens == request.max_tokens
        assert record.prompt_tokens == request.prompt_tokens
        assert (record.ttft_ms is not None) is request.streamed
        assert len(record.gaps_ms) <= (record.tokens - 1 if request.streamed else 0)
    streamed = [record for record in records if record.streamed]
    gaps = sum(len(record.gaps_ms) for record in streamed)
    # A drawn byte that begins a code point is held back; those are one in six hundred.
    assert gaps >= 0.95 * sum(record.tokens - 1 for record in streamed)
    assert generated == sum(record.tokens for record in records)


async def test_a_full_queue_refuses_and_loses_nothing(unused_tcp_port_factory: Ports) -> None:
    flags = ("--max-queued-requests", "2", "--max-num-seqs", "1")
    async with engine(unused_tcp_port_factory, *flags) as running:
        records = await sent(plan("a:1:5:60", rate=60.0, duration_s=0.5), running.url)
    outcomes = {record.outcome for record in records}
    assert outcomes == {Outcome.OK, Outcome.REFUSED}
    assert {r.status for r in records if r.outcome is Outcome.REFUSED} == {429}
