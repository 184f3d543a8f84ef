"""`python -m e2e.trial`: the whole on a real cluster, held against the simulator, then faults.

A quarter of an hour of load on 2 to 8 simulated engines in real pods. Its first eight minutes are
compared with what the simulator says of the same spec and the same arrivals. Then an engine's
metrics hang, another ignores live values, an engine, the leading operator and the API server are
killed. At the end others write replicas, and a Prometheus server takes the place of the operator's
own scrapes. Ends with one line `e2e: ok|short|void ...`; about 22 minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from e2e import interruption
from e2e.cluster.errors import ClusterError
from e2e.cluster.settings import from_environment
from e2e.demo.observer import ObserverError
from e2e.install import InstallError
from e2e.kubectl import KubectlError
from e2e.smoke.__main__ import Report, require_own_cluster
from e2e.smoke.site import SmokeError
from e2e.stand import stand
from e2e.trial import course
from e2e.trial.load import FULL, SHORT, Loads
from e2e.trial.verdict import Outcome, judge
from e2e.verdict import ExitCode, Verdict

NAMESPACE = "paceline-trial"
OPERATORS = 2
RESULTS = Path(__file__).parents[2] / "bench" / "results"
FAILURES = (ClusterError, InstallError, KubectlError, ObserverError, SmokeError, OSError)


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m e2e.trial", description=__doc__)
    parser.add_argument(
        "--short", action="store_true", help="two minutes of load: that it works, not how well"
    )
    parser.add_argument("--keep-cluster", action="store_true", help="leave the cluster up")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    try:
        with interruption.raised():
            return _trial(options)
    except FAILURES as error:
        print(f"e2e: short {error}", flush=True)
        return ExitCode.SHORT
    except KeyboardInterrupt:
        print("e2e: interrupted; what it had started is removed", flush=True)
        return ExitCode.INTERRUPTED


def _trial(options: argparse.Namespace) -> int:
    report = Report()
    require_own_cluster(from_environment())
    loads = SHORT if options.short else FULL
    with stand(NAMESPACE, keep_cluster=options.keep_cluster, operators=OPERATORS) as place:
        outcome = course.run(place, loads, report)
    verdict = judge(outcome)
    print(f"result: {write(options.results, loads, outcome, verdict)}")
    for reason in verdict.reasons:
        print(f"  {reason}")
    print(f"{verdict.line} seconds={report.seconds:.0f}", flush=True)
    return int(verdict.code)


def write(folder: Path, loads: Loads, outcome: Outcome, verdict: Verdict) -> Path:
    """Writes the result under its time; never over another one."""
    now = datetime.now(UTC)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"e2e-{now:%Y-%m-%d-%H%M%S}.json"
    body = {
        "time": now.isoformat(timespec="seconds"),
        "command": "python -m e2e.trial",
        "line": verdict.line,
        "reasons": verdict.reasons,
        "loads": asdict(loads),
        "differences": {name: asdict(part.difference) for name, part in outcome.parts},
        **asdict(outcome),
    }
    with path.open("x") as file:
        file.write(json.dumps(body, indent=1) + "\n")
    return path


if __name__ == "__main__":
    sys.exit(main())
