"""A soak: rounds of mixed traffic, each let run dry, after two floods."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.soak import virtual_time
from bench.soak.call import Call
from bench.soak.site import Site, site
from bench.soak.traffic import COMPLETIONS, Traffic
from bench.soak.watch import Sample, leaks

ROUND_S = 60.0
FLOODS = 2  # in the warm-up: what the allocator keeps of them settles there
FLOOD = 10_000
ABORTED = 1_000
EXPECTED = frozenset({0, 200, 400, 429})
DRY_S = 3600.0


@dataclass(slots=True)
class Result:
    """What a soak found.

    Attributes:
        samples: One after each round.
        statuses: How calls ended; 0 is a client that left before its answer began.
        problems: What must not be, one line each.
    """

    samples: list[Sample] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def soak(
    virtual_s: float, seed: int, *, rate_per_s: float = 4.0, told: Callable[[Sample], None]
) -> Result:
    """Runs a soak and judges it.

    Args:
        virtual_s: How long, in the server's time; the floods come on top.
        seed: Of all traffic.
        rate_per_s: Mean arrivals.
        told: Hears of each sample.
    """
    return virtual_time.run(_soak(virtual_s, seed, rate_per_s, told))


async def _soak(
    virtual_s: float, seed: int, rate_per_s: float, told: Callable[[Sample], None]
) -> Result:
    result = Result()
    rounds = max(8, round(virtual_s / ROUND_S))
    began_s = asyncio.get_running_loop().time()
    async with site() as place:
        for number in range(rounds):
            if number < FLOODS:
                await _flood(place, result, seed + number)
            await _round(place, result, seed * 1000 + number, rate_per_s)
            at_s = asyncio.get_running_loop().time() - began_s
            sample = place.look(at_s, result.statuses.total())
            result.samples.append(sample)
            told(sample)
    result.problems.extend(leaks(result.samples))
    strange = {status: n for status, n in result.statuses.items() if status not in EXPECTED}
    if strange:
        result.problems.append(f"answers that must not be: {strange}")
    return result


async def _round(place: Site, result: Result, seed: int, rate_per_s: float) -> None:
    traffic = Traffic(
        seed=seed, rate_per_s=rate_per_s, vocabulary=256, largest_prompt=600, mean_output=40.0
    )
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    running: set[asyncio.Task[None]] = set()
    for at_s, call in traffic.calls(ROUND_S):
        await asyncio.sleep(max(0.0, start_s + at_s - loop.time()))
        task = asyncio.create_task(_one(place, call, result))
        running.add(task)
        task.add_done_callback(running.discard)
    await _dry(running)


async def _flood(place: Site, result: Result, seed: int) -> None:
    """10,000 requests at once, a tenth of which leave while they wait."""
    draw = random.Random(seed)
    leaving = set(draw.sample(range(FLOOD), ABORTED))
    calls = [
        Call(
            COMPLETIONS,
            {"prompt": [draw.randrange(256) for _ in range(8)], "max_tokens": 2},
            leave_after_s=draw.random() if index in leaving else None,
        )
        for index in range(FLOOD)
    ]
    await _dry({asyncio.create_task(_one(place, call, result)) for call in calls})


async def _one(place: Site, call: Call, result: Result) -> None:
    await call.run(place.app)
    result.statuses[call.status] += 1


async def _dry(running: set[asyncio.Task[None]]) -> None:
    """Waits for calls in progress; they all must end."""
    if running:
        async with asyncio.timeout(DRY_S):
            await asyncio.gather(*running)
    await asyncio.sleep(2.0)  # the engine's beat: idle, audited
