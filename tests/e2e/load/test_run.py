"""Whole runs against a real HTTP server."""

from __future__ import annotations

import asyncio
import time

from aiohttp import web

from e2e.load import arrivals
from e2e.load.mix import parse_mix
from e2e.load.plan import Plan, make_plan
from e2e.load.record import Outcome, Record
from e2e.load.run import Run, Tally
from e2e.load.sender import Target
from tests.e2e.load.serving import Serve, full_stream


def plan(rate: float, duration_s: float) -> Plan:
    segments = arrivals.steady(rate, duration_s)
    return make_plan(segments, parse_mix("a:1:8:4"), seed=1, max_requests=1000, evenly=True)


def target(url: str) -> Target:
    return Target(
        url=url,
        model="m",
        route="chat",
        vocabulary="bytes",
        seed=1,
        ignore_eos=True,
        timeout_s=20.0,
    )


def ignore(_elapsed_s: float, _tally: Tally) -> None:
    pass


async def test_every_planned_request_leaves_when_due(serve: Serve) -> None:
    records: list[Record] = []
    made = plan(rate=40.0, duration_s=1.0)
    started_s = time.time()
    tally = await Run(made, target(await serve(full_stream)), records.append, ignore).run(started_s)
    assert sorted(r.id for r in records) == [r.number for r in made.requests]
    assert tally.outcomes == {Outcome.OK: 40}
    assert (tally.sent, tally.running, tally.tokens) == (40, 0, 160)
    for record in records:
        assert record.scheduled_s == started_s + made.requests[record.id].offset_s
        assert record.sent_s >= record.scheduled_s - 0.002  # the loop's clock is a little coarse
    assert tally.worst_lag_s == max(r.sent_s - r.scheduled_s for r in records)


async def test_the_loop_is_open(serve: Serve) -> None:
    """A server that answers nothing until all have arrived still gets all of them."""
    arrived = 0
    everyone = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal arrived
        arrived += 1
        if arrived == 150:
            everyone.set()
        await everyone.wait()
        return await full_stream(request)

    records: list[Record] = []
    run = Run(
        plan(rate=300.0, duration_s=0.5), target(await serve(handler)), records.append, ignore
    )
    await run.run(time.time())
    assert [r.outcome for r in records] == [Outcome.OK] * 150


async def test_a_stop_cancels_what_is_in_flight_and_sends_no_more(serve: Serve) -> None:
    hanging = asyncio.Event()
    arrived = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal arrived
        arrived += 1
        if arrived == 1:
            return await full_stream(request)
        if arrived == 5:
            hanging.set()
        await asyncio.Event().wait()
        return web.Response()

    records: list[Record] = []
    run = Run(
        plan(rate=20.0, duration_s=30.0), target(await serve(handler)), records.append, ignore
    )
    running = asyncio.create_task(run.run(time.time()))
    await hanging.wait()
    run.stop()
    tally = await running
    assert run.stopped
    assert tally.outcomes[Outcome.OK] == 1
    assert tally.outcomes[Outcome.CANCELLED] == tally.sent - 1 >= 4
    assert tally.sent < tally.planned
    assert len(records) == tally.sent


async def test_a_stop_after_the_last_departure_does_not_wait(serve: Serve) -> None:
    async def handler(_request: web.Request) -> web.StreamResponse:
        run.stop()
        await asyncio.Event().wait()
        return web.Response()

    records: list[Record] = []
    run = Run(plan(rate=10.0, duration_s=0.1), target(await serve(handler)), records.append, ignore)
    await run.run(time.time())
    assert [r.outcome for r in records] == [Outcome.CANCELLED]
