"""`python -m e2e.load`: see `--help`."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from dataclasses import asdict
from typing import Any

from e2e.load import options
from e2e.load.plan import Plan
from e2e.load.record import Outcome, Record, to_line
from e2e.load.run import Run, Tally
from e2e.load.sender import Target
from e2e.load.summary import summarise


def main() -> int:
    """Runs the plan that the flags describe; 0 also where requests were lost."""
    plan, target, as_json = options.read(sys.argv[1:])
    asyncio.run(_run(plan, target, as_json=as_json))
    return 0


async def _run(plan: Plan, target: Target, *, as_json: bool) -> None:
    records: list[Record] = []

    def keep(record: Record) -> None:
        records.append(record)
        if as_json:
            print(to_line(record), flush=True)

    run = Run(plan, target, keep, _progress)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, run.stop)
    loop.add_signal_handler(signal.SIGUSR1, run.finish)
    started_s = time.time()
    if as_json:
        print(json.dumps({"start": start_of(plan, started_s)}), flush=True)
    tally = await run.run(started_s)
    summary = {
        "planned": tally.planned,
        "sent": tally.sent,
        "stopped": run.stopped,
        "finished": run.finished,
        "worst_lag_ms": round(tally.worst_lag_s * 1e3, 1),
        **summarise(records),
    }
    print(json.dumps({"summary": summary}) if as_json else _table(summary), flush=True)


def start_of(plan: Plan, started_s: float) -> dict[str, Any]:
    """When the run began and where its phases lie, in Unix seconds."""
    phases = [
        {**asdict(phase), "from_s": started_s + phase.from_s, "to_s": started_s + phase.to_s}
        for phase in plan.phases
    ]
    return {"at_s": started_s, "requests": len(plan.requests), "phases": phases}


def _progress(elapsed_s: float, tally: Tally) -> None:
    outcomes = " ".join(f"{outcome.value}={tally.outcomes[outcome]}" for outcome in Outcome)
    print(
        f"load: {elapsed_s:.0f} s sent={tally.sent}/{tally.planned} running={tally.running} "
        f"{outcomes} output_tokens={tally.tokens}",
        file=sys.stderr,
        flush=True,
    )


def _table(summary: dict[str, Any]) -> str:
    rows = {"all": summary, **summary["phases"]}
    lines = [f"{'phase':10s} requests   ok refused lost cancelled  ttft p50/p95  itl p50/p95 (ms)"]
    lines += [
        f"{name:10s} {row['requests']:8d} {row['ok']:4d} {row['refused']:7d} {row['lost']:4d} "
        f"{row['cancelled']:9d}  {_pair(row['ttft_ms']):>12s}  {_pair(row['itl_ms']):>11s}"
        for name, row in rows.items()
    ]
    lines.append(f"latest departure after its time: {summary['worst_lag_ms']} ms")
    return "\n".join(lines)


def _pair(percentiles: dict[str, float | None]) -> str:
    shown = [percentiles["p50"], percentiles["p95"]]
    return "/".join("-" if value is None else f"{value:.0f}" for value in shown)


if __name__ == "__main__":
    sys.exit(main())
