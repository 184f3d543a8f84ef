"""`python -m e2e.demo`: the main job on a real cluster, from apply to report.

`--down` removes what it left: fleet, release, cluster, model file.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from e2e import interruption
from e2e.cluster.errors import ClusterError
from e2e.demo import fleet, real, report
from e2e.demo.calibration import ProbeError
from e2e.demo.observer import ObserverError
from e2e.demo.story import outcome_of, report_parts
from e2e.demo.verdict import Outcome, judge
from e2e.install import InstallError, place_model, remove_model
from e2e.kubectl import KubectlError
from e2e.setup.place import MODEL_FILE
from e2e.stand import stand, take_down
from e2e.verdict import ExitCode, Verdict

NAMESPACE = "paceline-demo"
RESULTS = Path(__file__).parents[2] / "bench" / "results" / "demo"

FAILURES = (
    ClusterError,
    InstallError,
    KubectlError,
    ObserverError,
    ProbeError,
    real.RealPartError,
    OSError,
)


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m e2e.demo", description=__doc__)
    parser.add_argument("--down", action="store_true", help="remove what the demo left")
    options = parser.parse_args()
    try:
        with interruption.raised():
            return _down() if options.down else _demo()
    except FAILURES as error:
        print(f"demo: stopped: {error}", file=sys.stderr, flush=True)
        return ExitCode.STOPPED
    except KeyboardInterrupt:
        print("demo: interrupted; `make demo-down` removes the cluster", file=sys.stderr)
        return ExitCode.INTERRUPTED


def _demo() -> int:
    started = time.monotonic()
    with stand(NAMESPACE, keep_cluster=True) as place:
        if place.settings.provider == "built":
            place_model(MODEL_FILE)
        print("\n== 1. A real model, and steps sized for its objective, live ==", flush=True)
        real_part = real.run(place)
        print("\n== 2. A fleet, and a threefold load step ==", flush=True)
        fleet_part = fleet.run(place)
    outcome = outcome_of(real_part, fleet_part)
    verdict = judge(outcome)
    folder = RESULTS / datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ")
    page = report.write(report_parts(real_part, fleet_part), verdict, folder, datetime.now(UTC))
    _write_json(folder, outcome, verdict, real_part)
    print(f"\nreport: {page}", flush=True)
    print(f"took {time.monotonic() - started:.0f} s; `make demo-down` removes the cluster")
    for reason in verdict.reasons:
        print(f"  {reason}")
    print(verdict.line, flush=True)
    return int(verdict.code)


def _write_json(folder: Path, outcome: Outcome, verdict: Verdict, part: real.RealPart) -> None:
    body = {
        "command": "make demo",
        "line": verdict.line,
        "reasons": verdict.reasons,
        "real_targets_ms": part.manifest.targets_ms,
        "real_targets_scaled_by": part.scaled_by,
    }
    figures = json.dumps({**body, **asdict(outcome)}, indent=2, default=str)
    (folder / "figures.json").write_text(figures + "\n")


def _down() -> int:
    """Everything that can go goes, whatever else could not."""
    try:
        left = take_down()
    finally:
        remove_model(MODEL_FILE)
    for what in left:
        print(f"demo: left: {what}", file=sys.stderr)
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
