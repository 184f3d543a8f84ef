"""What the operator writes while it holds, and for a move: counted over many services.

Its own passes run over an API server in memory and engines that are real to HTTP; what they
cost at full size is `python -m bench.operator_cost`'s to say.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator

import aiohttp
import pytest

from bench.operator_cost.memory_api import Writes
from bench.operator_cost.site import PER_SERVICE, Site, engines, service_name, site
from paceline_operator.reconcile.tick import tick

pytestmark = pytest.mark.timeout(300)

SERVICES = 20
LATE = tuple(service_name(number) for number in range(4))
MOST_PER_MOVE = 4
NETWORK = f"127.{101 + os.getpid() % 99}"
SETTLED_S, MOVED_S = 90.0, 120.0


@pytest.fixture
async def made() -> AsyncIterator[Site]:
    with engines(SERVICES * PER_SERVICE, NETWORK):
        async with aiohttp.ClientSession() as session:
            with site(session, NETWORK) as built:
                built.create(SERVICES)
                yield built


async def passes(made: Site) -> None:
    """One pass over every object, a scrape's interval after the one before."""
    began_s = time.monotonic()
    await asyncio.gather(*(tick(made.ctx, key) for key in made.services()))
    left_s = made.ctx.source.interval_s - (time.monotonic() - began_s)
    await asyncio.sleep(max(0.0, left_s))


async def test_a_hold_writes_nothing_and_a_move_four_times_at_most(made: Site) -> None:
    made.ctx.source.interval_s = 1.0
    held, minutes = await hold(made)
    assert {service: each.others for service, each in held.items() if each.others} == {}
    assert all(each.status <= minutes for each in held.values())
    for service in LATE:
        made.late(service, on=True)
    moves, began_s = made.moves(), time.monotonic()
    made.api.writes.clear()
    while not any(moved(made, moves).get(service) for service in LATE):
        assert time.monotonic() < began_s + MOVED_S, "too much load moves nothing"
        await passes(made)
    await passes(made)
    minutes = 1 + int((time.monotonic() - began_s) // 60)
    for service, count in moved(made, moves).items():
        writes = made.api.writes[service]
        spent = writes.others.total() + max(0, writes.status - minutes)
        assert spent <= MOST_PER_MOVE * count, (service, count, writes)
    assert not any(each.others for each in of_those_that_held(made, moves).values())


async def hold(made: Site) -> tuple[dict[str, Writes], int]:
    """What was written for services that held for five passes, and in how many minutes.

    The services are alike, so they move together: then the passes after it are looked at, once
    what a move leaves for the pass after it is written.
    """
    limit_s = time.monotonic() + SETTLED_S
    while True:
        await settle(made)
        moves, began_s = made.moves(), time.monotonic()
        made.api.writes.clear()
        for _ in range(5):
            await passes(made)
        held = of_those_that_held(made, moves)
        if held:
            return held, 1 + int((time.monotonic() - began_s) // 60)
        assert time.monotonic() < limit_s, "no service ever holds"


async def settle(made: Site) -> None:
    """Until three rounds in a row have moved and made nothing."""
    limit_s, quiet = time.monotonic() + SETTLED_S, 0
    while quiet < 3:
        assert time.monotonic() < limit_s, made.api.writes
        made.api.writes.clear()
        await passes(made)
        quiet = 0 if any(each.others for each in made.api.writes.values()) else quiet + 1


def moved(made: Site, before: dict[str, int]) -> dict[str, int]:
    """Moves since then, by service."""
    counts = {name: count - before.get(name, 0) for name, count in made.moves().items()}
    return {name: count for name, count in counts.items() if count}


def of_those_that_held(made: Site, before: dict[str, int]) -> dict[str, Writes]:
    """What was written for services that have not moved since then; nothing, where none was."""
    names = {service_name(number) for number in range(SERVICES)} - set(moved(made, before))
    return {name: made.api.writes.get(name, Writes()) for name in names}
