"""What the operator costs.

    python -m bench.operator_cost [--services 500]

with the operator's environment, on two idle cores: the operator's own code (store, queue,
workers, scraping, passes) with 500 services of 4 engines each, on one core; the engines, which
listen on 2,000 addresses and more, have the other. API writes are counted at the client, over a
server in memory. First all services are made and come to rest, then nothing may move, then every
tenth service gets too much load. Ends with one line `operator-cost: ok|short|void ...`: ok where 95
of 100 passes take 2 s at most, memory stays below 400 MB, under constant load nothing moves and
nothing is written, and a move costs 4 writes at most, one status write per object and minute
aside; void where others kept the core busy. 5 to 8 minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from bench.operator_cost import engine_text
from bench.operator_cost.site import PER_SERVICE, REPLICAS, Site, engines, service_name, site
from paceline_operator.metrics import SCRAPE_INTERVAL_S, names
from paceline_operator.metrics.exposition import parse
from paceline_operator.reconcile import workers
from paceline_operator.reconcile.tick import tick
from paceline_operator.reconcile.workers import Workers

RESULTS = Path(__file__).parents[1] / "results"
NETWORK = "127.200"
WORKERS = 8
PASS_LIMIT_S, MEMORY_LIMIT_MB, WRITES_LIMIT, INTERVAL_LIMIT_S = 2.0, 400.0, 4, 15.0
SETTLE_S, HOLD_S, MOVE_S = 90.0, 120.0, 60.0
REST_S, RESTS = 30.0, 6
"""All services are at rest once none has moved for so long; how often that is looked for."""
STOLEN_LIMIT = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One stretch of time.

    Attributes:
        passes: How many there were.
        pass_p95_s: Time of one, waiting for engines included.
        pass_cpu_ms: Processor time of the whole process for one.
        busy: Share of the core.
        interval_s: Between two rounds of scrapes, at the end.
        period_p95_s: Between two passes over one object that measured.
        waited: Share of the time in which the process wanted the core and another one had it.
        memory_mb: Resident, at most so far.
        moves: Of knobs and replicas.
        status_writes: Of all objects.
        other_writes: By kind.
        most_writes_per_move: Over the objects that moved, without one status write a minute.
        writes_without_move: To anything but the status, of objects that held.
        most_status_writes: Of one object that held.
    """

    name: str
    seconds: float
    passes: int
    pass_p95_s: float
    pass_cpu_ms: float
    busy: float
    interval_s: float
    period_p95_s: float
    waited: float
    memory_mb: float
    moves: int
    status_writes: int
    other_writes: dict[str, int]
    most_writes_per_move: float
    writes_without_move: int
    most_status_writes: int


class Watcher:
    """Notes every pass of the workers.

    Args:
        made: What is watched.
    """

    def __init__(self, made: Site) -> None:
        self._site = made
        self.took_s: list[float] = []
        self.periods_s: list[float] = []
        self._measured: dict[str, float] = {}
        self._tick = tick
        setattr(workers, "tick", self._watched)  # noqa: B010 - it is not exported

    async def _watched(self, ctx: Any, key: Any) -> float | None:
        started_s = time.perf_counter()
        delay = await self._tick(ctx, key)
        self.took_s.append(time.perf_counter() - started_s)
        at_s = ctx.session(key).scraped_at_s
        before_s = self._measured.get(key[1])
        if before_s is not None and at_s > before_s:
            self.periods_s.append(at_s - before_s)
        self._measured[key[1]] = at_s
        return delay

    async def phase(self, name: str, seconds: float) -> Phase:
        """Lets the operator run on and tells of it."""
        self.took_s, self.periods_s = [], []
        moves, cpu_s, began_s = self._site.moves(), time.process_time(), time.monotonic()
        queued_s = _queued_s()
        self._site.api.writes.clear()
        await asyncio.sleep(seconds)
        lasted_s, cpu_s = time.monotonic() - began_s, time.process_time() - cpu_s
        moved = {
            service: count - moves.get(service, 0)
            for service, count in self._site.moves().items()
            if count > moves.get(service, 0)
        }
        writes = self._site.api.writes
        per_minute = int(lasted_s // 60) + 1
        others: dict[str, int] = {}
        for each in writes.values():
            for what, count in each.others.items():
                others[what] = others.get(what, 0) + count
        return Phase(
            name=name,
            seconds=round(lasted_s, 1),
            passes=len(self.took_s),
            pass_p95_s=round(_p95(self.took_s), 4),
            pass_cpu_ms=round(1e3 * cpu_s / max(1, len(self.took_s)), 2),
            busy=round(cpu_s / lasted_s, 3),
            interval_s=round(self._site.ctx.source.interval_s, 2),
            period_p95_s=round(_p95(self.periods_s), 2),
            waited=round((_queued_s() - queued_s) / lasted_s, 3),
            memory_mb=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
            moves=sum(moved.values()),
            status_writes=sum(each.status for each in writes.values()),
            other_writes=others,
            most_writes_per_move=max(
                (
                    (max(0, writes[s].status - per_minute) + writes[s].others.total()) / count
                    for s, count in moved.items()
                    if s in writes
                ),
                default=0.0,
            ),
            writes_without_move=sum(
                each.others.total() for service, each in writes.items() if service not in moved
            ),
            most_status_writes=max(
                (each.status for service, each in writes.items() if service not in moved),
                default=0,
            ),
        )


def _queued_s() -> float:
    """Seconds in which this thread was ready to run and did not."""
    return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1] if len(values) > 1 else 0.0


async def measured(services: int, scale: float) -> list[Phase]:
    """All phases."""
    connector = aiohttp.TCPConnector(limit=256, ttl_dns_cache=None)
    async with aiohttp.ClientSession(connector=connector) as session:
        with site(session, NETWORK) as made:
            watcher = Watcher(made)
            working = asyncio.create_task(Workers(made.ctx, WORKERS).run())
            made.create(services)
            phases = [await watcher.phase("made", SETTLE_S * scale)]
            await _rest(made, REST_S * scale)
            phases.append(await watcher.phase("held", HOLD_S * scale))
            for number in range(0, services, 10):
                made.late(service_name(number), on=True)
            phases.append(await watcher.phase("moved", MOVE_S * scale))
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            return phases


async def _rest(made: Site, seconds: float) -> None:
    """Lets each service find its first values; one that never rests shows in what follows."""
    for _ in range(RESTS):
        before = made.moves()
        await asyncio.sleep(seconds)
        if made.moves() == before:
            return


def parser_cost() -> dict[str, float]:
    """Processor time for one engine's answer, by this parser and by the official one."""
    gauges = {names.REQUESTS_RUNNING: 8.0, names.TUNABLES_REVISION: 3.0}
    text = engine_text.text(1000.0, 0.0, 1.0, gauges)

    def official() -> None:
        for family in text_string_to_metric_families(text):
            list(family.samples)

    ours_ms, theirs_ms = _cpu_ms(lambda: parse(text), 50), _cpu_ms(official, 10)
    return {
        "kilobytes": round(len(text) / 1000, 1),
        "parser_ms": round(ours_ms, 3),
        "prometheus_client_ms": round(theirs_ms, 3),
        "ratio": round(theirs_ms / ours_ms, 1),
    }


def _cpu_ms(work: Any, count: int) -> float:
    work()
    started_s = time.process_time()
    for _ in range(count):
        work()
    return 1e3 * (time.process_time() - started_s) / count


def shortfalls(phases: list[Phase]) -> list[str]:
    """What misses its bar."""
    found = []
    _, held, moved = phases
    for phase in (held, moved):
        if phase.pass_p95_s > PASS_LIMIT_S:
            found.append(f"{phase.name}: p95 of a pass {phase.pass_p95_s:.2f} s")
        if phase.interval_s > INTERVAL_LIMIT_S:
            found.append(f"{phase.name}: interval {phase.interval_s:.1f} s")
    if moved.memory_mb > MEMORY_LIMIT_MB:
        found.append(f"{moved.memory_mb:.0f} MB")
    if held.moves:
        found.append(f"held: {held.moves} moves under constant load")
    if writes := sum(held.other_writes.values()):
        found.append(f"held: {writes} writes beside status")
    if held.most_status_writes > held.seconds // 60 + 1:
        found.append(f"held: {held.most_status_writes} status writes of one object")
    if not moved.moves or moved.most_writes_per_move > WRITES_LIMIT:
        found.append(f"{moved.moves} moves of {moved.most_writes_per_move:.1f} writes at most")
    return found


def main() -> int:
    """Entry point."""
    options = argparse.ArgumentParser(prog="bench.operator_cost", description=__doc__)
    options.add_argument("--services", type=int, default=500)
    options.add_argument("--scale", type=float, default=1.0, help="of the phases' lengths")
    given = options.parse_args()
    parser = parser_cost()
    first, *others = sorted(os.sched_getaffinity(0))
    with engines(given.services * PER_SERVICE, NETWORK, others):
        os.sched_setaffinity(0, {first})
        phases = asyncio.run(measured(given.services, given.scale))
    short = shortfalls(phases)
    waited = max(phase.waited for phase in phases)
    is_void = waited > STOLEN_LIMIT
    word = f"void, the core was kept busy {waited:.0%} of the time by others" if is_void else "ok"
    last = (
        f"operator-cost: {'short ' + '; '.join(short) if short and not is_void else word} "
        f"({given.services} services, {given.services * REPLICAS} engines, pass p95 "
        f"{max(p.pass_p95_s for p in phases[1:]):.2f} s, {phases[-1].memory_mb:.0f} MB, "
        f"interval {phases[-1].interval_s:.1f} s, {phases[-1].most_writes_per_move:.1f} writes a "
        f"move, parser {parser['ratio']:.0f} times as fast as prometheus_client)"
    )
    now = datetime.now(UTC)
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"operator-cost-{now:%Y-%m-%d-%H%M%S}.json"
    result = {
        "services": given.services,
        "engines": given.services * REPLICAS,
        "first_interval_s": SCRAPE_INTERVAL_S,
        "parser": parser,
        "phases": [asdict(phase) for phase in phases],
        "last": last,
    }
    file.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps([asdict(phase) for phase in phases], indent=1))
    print(last)
    return 3 if is_void else int(bool(short))


if __name__ == "__main__":
    sys.exit(main())
