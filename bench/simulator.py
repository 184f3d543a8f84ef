"""How fast the simulator is, on one core.

    TRACES=DIR PYTHONPATH=$(python -m bench.compiled) python -m bench.simulator --days 7

with the operator's environment: the hour of `azure2023_conv` on 8 replicas, steered by nobody
and then by the autopilot, and days at one request a second. Without TRACES a load of the same
size stands in for the hour. Ends with one line `bench-simulator: ok|short|void ...`: ok where
the hour takes 8 s at most and seven days 15 minutes (fewer their share), in processor time; void
where the machine was busy with other things. The result says whether the simulator ran compiled.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from paceline_operator.api.v1alpha1 import Mode, SloMetric
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.autopilot.vocabulary.policy import Objective, Policy
from paceline_operator.cli.what_if.trace_file import read_trace
from paceline_operator.simulator.autopilot_controller import AutopilotController
from paceline_operator.simulator.controller import Controller, Orders
from paceline_operator.simulator.engine import loop as step_loop
from paceline_operator.simulator.engine_config import EngineConfig
from paceline_operator.simulator.fleet.fleet_config import FleetConfig
from paceline_operator.simulator.profiles import find_profile
from paceline_operator.simulator.request import Request
from paceline_operator.simulator.run import simulate

RESULTS = Path(__file__).parent / "results"
TRACE = "azure2023_conv.csv.gz"
HOUR_LIMIT_S = 8.0
WEEK_DAYS = 7
WEEK_LIMIT_S = 15 * 60.0
CODES = {"ok": 0, "short": 1, "void": 3}
BUSY_LOAD = 1.5
"""Load average from which others are taken for being at work."""
DAY_S = 86_400.0
REPLICAS = 8
PROFILE = "llama-3-8b-a100"
BLOCK_SIZE = 16
MODEL_LEN = 16_384
SEQS = 128
BUDGET = 2048

OBJECTIVES = (
    Objective(name="first-token", metric=SloMetric.TTFT, target_ms=2000),
    Objective(name="cadence", metric=SloMetric.ITL, target_ms=50),
)
POLICY = Policy(
    objectives=OBJECTIVES,
    scaling_mode=Mode.AUTO,
    min_replicas=1,
    max_replicas=12,
    batch_max=BUDGET,
    batch_initial=512,
    max_num_seqs=SEQS,
    profile=PROFILE,
)


class Nobody:
    """Steers nothing and never asks."""

    next_due_s = float("inf")

    def decide(self, fleet: FleetObservation, now_s: float) -> Orders:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Timing:
    """One simulation and what it took.

    Attributes:
        name: Load and who steers.
        requests: Simulated.
        cpu_s: Processor time.
        wall_s: Time on the clock.
        simulated_s: Time simulated.
        good: Share of requests that met both objectives.
        replica_hours: Paid for.
        limit_s: Processor time it may take.
    """

    name: str
    requests: int
    cpu_s: float
    wall_s: float
    simulated_s: float
    good: float
    replica_hours: float
    limit_s: float

    @property
    def line(self) -> str:
        """For people."""
        return (
            f"{self.name}: {self.requests} requests in {self.cpu_s:.2f} s of processor time "
            f"({self.wall_s:.2f} s on the clock), {self.requests / self.cpu_s:.0f} requests/s, "
            f"good {self.good:.3f}, {self.replica_hours:.1f} replica hours"
        )


def fleet(replicas: int) -> FleetConfig:
    """Replicas of one published accelerator."""
    profile = find_profile(PROFILE)
    engine = EngineConfig(
        law=profile.law,
        num_kv_blocks=profile.kv_capacity_tokens // BLOCK_SIZE,
        max_model_len=MODEL_LEN,
        max_num_batched_tokens=BUDGET,
        max_num_seqs=SEQS,
        initial_batched_tokens=POLICY.batch_initial,
        initial_running_seqs=SEQS,
        block_size=BLOCK_SIZE,
    )
    return FleetConfig(engine=engine, objectives=OBJECTIVES, initial_replicas=replicas)


def hour() -> Iterator[Request]:
    """The trace, or a load of its size where there is none."""
    folder = os.environ.get("TRACES")
    if not folder:
        yield from chat(5.53, 3502.0)
        return
    yield from read_trace(Path(folder) / TRACE)


def chat(rate: float, seconds: float) -> Iterator[Request]:
    """Poisson arrivals, log-normal lengths with the means of the trace."""
    chance = random.Random(1)
    at_s = chance.expovariate(rate)
    while at_s < seconds:
        prompt = min(14_000, 1 + int(chance.lognormvariate(6.5, 1.05)))
        output = min(1_500, 1 + int(chance.lognormvariate(5.1, 0.7)))
        yield Request(at_s, prompt, output)
        at_s += chance.expovariate(rate)


def timed(
    name: str, load: Iterable[Request], controller: Controller, replicas: int, limit_s: float
) -> Timing:
    """Runs one simulation."""
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    result = simulate(load, fleet(replicas), controller, generator=random.Random(1))
    cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
    ended = len(result.outcomes)
    return Timing(
        name=name,
        requests=ended,
        cpu_s=cpu_s,
        wall_s=wall_s,
        simulated_s=result.length_s,
        good=result.samples[-1].good / max(1, result.samples[-1].ended),
        replica_hours=result.replica_seconds / 3600,
        limit_s=limit_s,
    )


def cases(days: int) -> Iterator[Callable[[], Timing]]:
    source = TRACE if os.environ.get("TRACES") else "chat like it"
    yield lambda: timed(f"{source}, unsteered", hour(), Nobody(), REPLICAS, HOUR_LIMIT_S)
    yield lambda: timed(
        f"{source}, autopilot", hour(), AutopilotController(POLICY), REPLICAS, HOUR_LIMIT_S
    )
    yield lambda: timed(
        f"{'a day' if days == 1 else f'{days} days'} at 1 request/s, autopilot",
        chat(1.0, days * DAY_S), AutopilotController(POLICY), 1, WEEK_LIMIT_S * days / WEEK_DAYS,
    )  # fmt: skip


def verdict(timings: list[Timing], load_average: float) -> str:
    """The last line."""
    kept = all(timing.cpu_s <= timing.limit_s for timing in timings)
    word = "ok" if kept else ("void" if load_average > BUSY_LOAD else "short")
    figures = " ".join(f"{timing.cpu_s:.1f}/{timing.limit_s:.0f}s" for timing in timings)
    return f"bench-simulator: {word} {figures} load={load_average:.2f}"


def is_compiled() -> bool:
    """Whether the engines' step loop is a C extension."""
    return not str(step_loop.__file__).endswith(".py")


def save(folder: Path, now: datetime, timings: list[Timing], last: str, days: int) -> Path:
    """Writes a result under its time; never over another one."""
    folder.mkdir(exist_ok=True)
    path = folder / f"simulator-{now:%Y-%m-%d-%H%M%S}.json"
    content = {
        "time": now.isoformat(timespec="seconds"),
        "command": f"python -m bench.simulator --days {days}",
        "compiled": is_compiled(),
        "trace": TRACE if os.environ.get("TRACES") else None,
        "verdict": last,
        "timings": [asdict(timing) for timing in timings],
    }
    with path.open("x", encoding="utf-8") as data:
        data.write(json.dumps(content, indent=1) + "\n")
    return path


def whole_days(text: str) -> int:
    """A number of days, one at least."""
    days = int(text)
    if days < 1:
        raise ValueError(text)
    return days


def parser() -> argparse.ArgumentParser:
    """What may be said on the command line."""
    found = argparse.ArgumentParser(prog="python -m bench.simulator", allow_abbrev=False)
    found.add_argument("--days", type=whole_days, default=WEEK_DAYS, help="default: 7")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    days = parser().parse_args(arguments).days
    load_average = os.getloadavg()[0]
    timings = []
    for case in cases(days):
        timings.append(case())
        print(timings[-1].line, flush=True)
    last = verdict(timings, load_average)
    save(RESULTS, datetime.now(UTC), timings, last, days)
    print(last)
    return CODES[last.split()[1]]


if __name__ == "__main__":
    sys.exit(main())
