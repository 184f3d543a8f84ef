"""`python -m bench.conformance.describe`: what the loads of the evaluation look like.

Prints a table, with replicas by the model of an engine's capacity, and ends with one line
`loads: ok ...`.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from random import Random

from bench.conformance.load_case import LoadCase
from bench.conformance.loads import loads, traces_word
from bench.conformance.shape import Shape, measure
from bench.conformance.sizing import replicas
from paceline_operator.simulator.loads.trace import TraceError

HEADER = (
    "load", "requests", "span s", "rps mean/peak", "prompt mean/p95", "output mean/p95", "hits",
    "replicas mean/peak", "TTFT/ITL ms", "profile",
)  # fmt: skip


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, default=os.environ.get("TRACES") or None)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    try:
        cases = loads(args.traces)
    except TraceError as error:
        print(f"loads: stopped {error}", file=sys.stderr)
        return 2
    print(_line(HEADER))
    for case in cases:
        print(_line(cells(case, measure(case.play(Random(args.seed))))), flush=True)
    print(f"loads: ok count={len(cases)} traces={traces_word(cases)}")
    return 0


def cells(case: LoadCase, shape: Shape) -> tuple[str, ...]:
    """One row of the table."""
    work, service = shape.workload, case.service
    mean, most = replicas(service, shape)
    return (
        case.name,
        str(shape.requests),
        f"{shape.span_s:.0f}",
        f"{shape.mean_rps:.1f}/{shape.peak_rps:.1f}",
        f"{work.prompt_mean:.0f}/{work.prompt_p95:.0f}",
        f"{work.output_mean:.0f}/{shape.output_p95:.0f}",
        f"{work.hit_rate:.0%}",
        f"{mean:.1f}/{most:.1f}",
        f"{service.ttft_ms}/{service.itl_ms}",
        service.profile,
    )


def _line(row: tuple[str, ...]) -> str:
    return f"| {' | '.join(row)} |"


if __name__ == "__main__":
    sys.exit(main())
