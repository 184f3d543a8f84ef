"""The trial's last line: ok, short or void, from figures alone. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from e2e.trial.figures import Difference, Figures, compare, misses
from e2e.verdict import Verdict, conclude

MAX_BUSY = 0.70
MAX_OUTSIDE = 0.10
"""As in the demo. A fifth of it made one gap in forty late, and a fifth of the requests bad."""
MAX_LAG_MS = 100.0
SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A stretch of load without faults.

    Attributes:
        seen: As it was.
        predicted: As the simulator had it.
        cold_start_s: Of replicas added in it, which the prediction took over.
        idle_s: How long the fleet was ready before the load began; taken over alike.
        host_cpu: Busy share of the machine.
        outside_cpu: Share of it that neither the run, nor the cluster, nor a pod used.
        lag_ms: 99th percentile of how late requests left.
    """

    seen: Figures
    predicted: Figures
    cold_start_s: float
    idle_s: float
    host_cpu: float
    outside_cpu: float
    lag_ms: float

    @property
    def difference(self) -> Difference:
        """Between the two."""
        return compare(self.seen, self.predicted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything the last line is made from.

    Attributes:
        requests: Sent by the load generator.
        refused: Of these, answered by a deliberate 429, as engines do with calls that could not
            be in time.
        refused_beside_faults: Of these, those beside faults other than the death of an engine.
        lost: One line for each that got anything else but a full reply, without a killed engine
            to explain it.
        lost_on_killed: Requests that ended with the engine that was killed.
        silences: Where load did not flow across a fault, in words.
        direct: The part without faults, engines' metrics read by the operator itself.
        by_prometheus: Another one, a Prometheus server asked for them; None where it could not
            be run, which `unmended` says.
        unmended: What of the faults and foreign writers did not hold, in words.
        mended: Names of those that did.
        converge_s: From the last fault until the fleet was as it should be; None if never.
    """

    requests: int
    refused: int
    refused_beside_faults: int
    lost: Sequence[str]
    lost_on_killed: int
    silences: Sequence[str]
    direct: Part
    by_prometheus: Part | None
    unmended: Sequence[str]
    mended: Sequence[str]
    converge_s: float | None

    @property
    def parts(self) -> list[tuple[str, Part]]:
        """Name and part of those there are."""
        both = [("direct", self.direct), ("by Prometheus", self.by_prometheus)]
        return [(name, part) for name, part in both if part is not None]


def judge(outcome: Outcome) -> Verdict:
    """On a machine without room simulated latencies are not the device's: that is void."""
    return conclude(
        "e2e",
        disturbances=_disturbances(outcome),
        shortfalls=_shortfalls(outcome),
        figures=_figures(outcome),
    )


def _disturbances(outcome: Outcome) -> list[str]:
    found = []
    for name, part in outcome.parts:
        if part.host_cpu > MAX_BUSY:
            found.append(f"{name}: the machine was {part.host_cpu:.0%} busy, above {MAX_BUSY:.0%}")
        if part.outside_cpu > MAX_OUTSIDE:
            found.append(
                f"{name}: processes outside the run used {part.outside_cpu:.0%} of the machine, "
                f"above {MAX_OUTSIDE:.0%}"
            )
        if part.lag_ms > MAX_LAG_MS:
            found.append(f"{name}: load was sent {part.lag_ms:.0f} ms late, for want of CPU")
    return found


def _shortfalls(outcome: Outcome) -> list[str]:
    found = [f"{name}: {text}" for name, part in outcome.parts for text in misses(part.difference)]
    found += [*outcome.lost[:SHOWN], *outcome.silences]
    if not outcome.requests:
        found.append("no request was sent")
    if outcome.refused_beside_faults:
        found.append(
            f"{outcome.refused_beside_faults} requests were refused that a healthy fleet serves"
        )
    if outcome.converge_s is None:
        found.append("the fleet did not come back to what it should be")
    return [*found, *outcome.unmended]


def _figures(outcome: Outcome) -> str:
    words = [
        f"requests={outcome.requests}",
        f"lost={len(outcome.lost)}",
        f"lost_on_killed_engine={outcome.lost_on_killed}",
        f"refused={outcome.refused}",
        *_part(outcome.direct, ""),
        f"cold_start_s={outcome.direct.cold_start_s:.0f}",
        f"mended={len(outcome.mended)}",
        f"converge_s={_seconds(outcome.converge_s)}",
        f"host_cpu={max(part.host_cpu for _, part in outcome.parts):.2f}",
        f"outside_cpu={max(part.outside_cpu for _, part in outcome.parts):.2f}",
    ]
    if outcome.by_prometheus is not None:
        words += _part(outcome.by_prometheus, "prometheus_")
    return " ".join(words)


def _part(part: Part, prefix: str) -> list[str]:
    seen, predicted = part.seen, part.predicted
    return [
        f"{prefix}ttft={_pair(seen.ttft.percent, predicted.ttft.percent)}",
        f"{prefix}itl={_pair(seen.itl.percent, predicted.itl.percent)}",
        f"{prefix}goodput={_pair(seen.goodput.percent, predicted.goodput.percent)}",
        f"{prefix}replica_hours={seen.replica_hours:.3f}/{predicted.replica_hours:.3f}",
        f"{prefix}replicas={seen.replicas_least}-{seen.replicas_most}",
    ]


def _pair(seen: float, predicted: float) -> str:
    return f"{seen:.1f}/{predicted:.1f}"


def _seconds(value: float | None) -> str:
    return "none" if value is None else f"{value:.0f}"
