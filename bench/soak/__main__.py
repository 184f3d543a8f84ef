"""`python -m bench.soak`: hours of mixed load on a virtual clock; nothing may leak.

Ends with one line `soak: ok|short ...`, exit code 0 for ok only.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from bench.soak.run import Result, soak
from bench.soak.watch import Sample, memory_growth, objects_a_call

RESULTS = Path(__file__).parents[1] / "results"


def main() -> int:
    """Runs, writes the result file, prints the last line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=120.0, help="virtual time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=4.0, help="calls a second")
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    began = time.monotonic()

    def told(sample: Sample) -> None:
        print(
            f"[{time.monotonic() - began:6.0f} s] virtual {sample.at_s / 60:6.1f} min  "
            f"memory {sample.rss_bytes / 2**20:6.1f} MiB  tasks {sample.tasks}  "
            f"timers {sample.timers}",
            flush=True,
        )

    result = soak(args.minutes * 60, args.seed, rate_per_s=args.rate, told=told)
    wall_s = time.monotonic() - began
    _write(args, result, wall_s)
    for problem in result.problems:
        print(f"  {problem}")
    print(
        f"soak: {'short' if result.problems else 'ok'} minutes={args.minutes:g} "
        f"calls={result.statuses.total()} memory_growth={memory_growth(result.samples):+.2%} "
        f"objects_a_call={objects_a_call(result.samples):.3f} "
        f"seconds={wall_s:.0f}"
    )
    return 1 if result.problems else 0


def _write(args: argparse.Namespace, result: Result, wall_s: float) -> None:
    stamp = datetime.now(UTC).strftime("%Y-%m-%d-%H%M%S")
    args.results.mkdir(parents=True, exist_ok=True)
    body = {
        "command": " ".join(["python -m bench.soak", *sys.argv[1:]]),
        "minutes": args.minutes,
        "seed": args.seed,
        "wall_s": round(wall_s, 1),
        "statuses": {str(status): count for status, count in sorted(result.statuses.items())},
        "memory_growth": round(memory_growth(result.samples), 5),
        "objects_a_call": round(objects_a_call(result.samples), 4),
        "problems": result.problems,
        "samples": [asdict(each) for each in result.samples],
    }
    (args.results / f"soak-{stamp}.json").write_text(json.dumps(body, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
