"""The simulator against real engines over HTTP, on the same load.

    python -m bench.validation

with the operator's environment, beside the engine's: the simulated device under three loads, and
the CPU engine with a real model three times under a fourth, by the step-time law that was measured
on this machine just before. Attainment may lie 5 points apart on
the simulated device, medians 10 %, 95th percentiles 20 %; on the CPU engine each figure as far as
its own repeats do, or 30 % of it, whichever is more. Ends with one line
`validation: ok|short|void ...`, void where others kept the machine busy, or where repeats lie so
far apart that nothing follows from them; about 12 minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from bench.validation import measured_profile, one_engine, served_engine
from bench.validation.case import CASES, Case, requests
from bench.validation.measures import Distance, Measures, distances, measures, middle, served
from e2e import interruption
from e2e.job import LoadLog
from e2e.kubectl import KubectlError
from e2e.setup.place import ENGINE_VENV, LOGS, MODEL_FILE
from paceline_operator.simulator.profiles import Profile, find_profile

RESULTS = Path(__file__).parents[1] / "results"
MAX_BUSY = 0.70
"""Of the machine while the simulated device is served; it only waits."""
MAX_LAG_MS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One case, served and simulated.

    Attributes:
        name: The case's.
        profile: Step-time law of the simulated engine.
        repeats: As served.
        simulated: By the simulator.
        distances: Between the median repeat and that.
        lost: Requests without a full answer.
        host_cpu: Busy share of the machine while serving.
        lag_ms: 99th percentile of how late requests left.
        is_disturbed: Whether the machine had too little room for its figures to count.
    """

    name: str
    profile: Profile
    repeats: tuple[Measures, ...]
    simulated: Measures
    distances: tuple[Distance, ...]
    lost: int
    host_cpu: float
    lag_ms: float
    is_disturbed: bool


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m bench.validation", description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    parser.add_argument("--model", type=Path, default=MODEL_FILE)
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    LOGS.mkdir(parents=True, exist_ok=True)
    try:
        with interruption.raised():
            found = [compare(case, args.model) for case in CASES if args.only in case.name]
    except (served_engine.ServedEngineError, KubectlError, ValueError, OSError) as error:
        print(f"validation: short {error}")
        return 1
    except KeyboardInterrupt:
        print("validation: interrupted; the engine is ended")
        return 130
    line = verdict(found)
    print(f"result: {write(args.results, found, line)}")
    print(line)
    return {"ok": 0, "short": 1, "void": 3}[line.split()[1]]


def compare(case: Case, model: Path) -> Comparison:
    """Serves a load as often as wanted and simulates it."""
    print(f"{case.name}:", flush=True)
    profile = find_profile(case.profile) if case.profile else measured_profile.measure(model)
    flags = case.engine_flags(None if case.is_simulated_device else model)
    log_file = LOGS / f"validation-{os.getpid()}.log"
    logs: list[LoadLog] = []
    busy: list[float] = []
    for _ in range(case.repeats):
        with served_engine.serving(ENGINE_VENV / "bin" / "paceline-engine", flags, log_file) as url:
            psutil.cpu_percent()
            logs.append(served_engine.load(url, case.load_flags()))
            busy.append(psutil.cpu_percent() / 100)
    repeats = tuple(served(log.records, case.targets) for log in logs)
    middle_log = logs[len(logs) // 2]
    kept = one_engine.simulate(
        requests(middle_log.records, middle_log.started_s), case.engine_config(profile)
    )
    simulated = measures(kept.ttft_ms, kept.gaps_ms, case.targets)
    comparison = Comparison(
        name=case.name,
        profile=profile,
        repeats=repeats,
        simulated=simulated,
        distances=distances(repeats, simulated, case.limits),
        lost=sum(len(log.records) for log in logs) - sum(each.requests for each in repeats),
        host_cpu=max(busy),
        lag_ms=max(log.lag_ms for log in logs),
        is_disturbed=case.is_simulated_device and max(busy) > MAX_BUSY,
    )
    _show(comparison)
    return comparison


def _show(found: Comparison) -> None:
    for distance in found.distances:
        print(f"  {distance.line}")
    centre = middle(found.repeats)
    print(
        f"  {centre.requests:.0f} requests, {found.lost} lost, gaps {centre.gaps:.0f} served and "
        f"{found.simulated.gaps} simulated, host CPU {found.host_cpu:.0%}, "
        f"sent {found.lag_ms:.0f} ms late",
        flush=True,
    )


def verdict(found: list[Comparison]) -> str:
    """The last line."""
    missed = [
        f"{comparison.name}/{distance.name}"
        for comparison in found
        for distance in comparison.distances
        if not distance.holds
    ]
    lost = sum(comparison.lost for comparison in found)
    is_void = any(
        each.is_disturbed
        or each.lag_ms > MAX_LAG_MS
        or any(distance.says_nothing for distance in each.distances)
        for each in found
    )
    word = "void" if is_void else "short" if missed or lost or not found else "ok"
    figures = sum(len(comparison.distances) for comparison in found)
    return (
        f"validation: {word} figures={figures} missed={len(missed)} lost={lost} "
        f"host_cpu={max((each.host_cpu for each in found), default=0.0):.2f}"
        + (f" short_of={'; '.join(missed)}" if missed else "")
    )


def write(folder: Path, found: list[Comparison], line: str) -> Path:
    """Writes a result under its time; never over another one."""
    now = datetime.now(UTC)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"validation-{now:%Y-%m-%d-%H%M%S}.json"
    body: dict[str, Any] = {
        "time": now.isoformat(timespec="seconds"),
        "command": "python -m bench.validation",
        "line": line,
        "cases": [asdict(case) for case in CASES],
        "comparisons": [
            {
                **asdict(each),
                "distances": [
                    {**asdict(d), "value": d.value, "holds": d.holds} for d in each.distances
                ],
            }
            for each in found
        ],
    }
    with path.open("x") as file:
        file.write(json.dumps(body, indent=1) + "\n")
    return path


if __name__ == "__main__":
    sys.exit(main())
