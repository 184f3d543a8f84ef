"""The demo's last line: ok, short or void, from figures alone."""

from __future__ import annotations

from dataclasses import dataclass

from e2e.load.report import Attainment
from e2e.verdict import Verdict, conclude

OBJECTIVE = 0.95
MAX_BUSY = 0.70
MAX_OUTSIDE = 0.10
MAX_LAG_MS = 100.0
MIN_STEPS = 200
MIN_REQUESTS = 400
COLD_STARTS_TO_RECOVER = 2.5
RECOVERY_GRACE_S = 60.0
FIRSTS = "requests got their first token"
GAPS = "further tokens came"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything the last line is made from.

    Attributes:
        requests: Sent by the load generator in both parts.
        lost: Of these, answered by anything but a full reply or a deliberate 429.
        itl_before: Real fleet, gaps within target while nothing tuned it, n = engine steps;
            has to miss the objective, or there was nothing to show.
        itl_after: The same once the budget had moved.
        ttft_after: Simulated fleet, from when it should have recovered from the load step to
            the end of the load, the fall of it and the scale-in included.
        real_ttft_after: Real fleet, once the budget had moved.
        simulated_itl_after: Simulated fleet, over the time of `ttft_after`.
        steps_before: Engine steps with running requests in the phase before.
        steps_after: The same in the phase after.
        recovery_s: From the load step until the objectives hold for good, None if never.
        cold_start_s: From a new pod's creation until it serves, None without a new pod.
        first_move_s: From the load step to the first live move, None without one.
        first_serving_s: From the load step until the first new replica serves.
        replicas_peak: Most ready pods of the simulated fleet.
        replicas_end: Ready pods when its load had fallen.
        budget_moved: Whether the real fleet's live knobs moved.
        restarts: Container restarts in both fleets.
        replaced_pods: Engine pods of the real fleet that took another one's place.
        host_cpu: Busy share of the machine in the simulated part, None where it is not here.
        outside_cpu: Share used by processes outside the demo in the real part, None likewise.
        lag_ms: 99th percentile of how late the simulated part's requests left.
    """

    requests: int
    lost: int
    itl_before: Attainment
    itl_after: Attainment
    ttft_after: Attainment
    real_ttft_after: Attainment
    simulated_itl_after: Attainment
    steps_before: int
    steps_after: int
    recovery_s: float | None
    cold_start_s: float | None
    first_move_s: float | None
    first_serving_s: float | None
    replicas_peak: int
    replicas_end: int
    budget_moved: bool
    restarts: int
    replaced_pods: int
    host_cpu: float | None
    outside_cpu: float | None
    lag_ms: float


def judge(outcome: Outcome) -> Verdict:
    """What the demo says at its end."""
    return conclude(
        "demo",
        disturbances=_disturbances(outcome),
        shortfalls=_shortfalls(outcome),
        figures=_figures(outcome),
    )


def _disturbances(outcome: Outcome) -> list[str]:
    found = []
    if outcome.host_cpu is not None and outcome.host_cpu > MAX_BUSY:
        found.append(
            f"simulated part: the machine was {outcome.host_cpu:.0%} busy, above {MAX_BUSY:.0%}, "
            "so simulated latencies are not those of the simulated device"
        )
    if outcome.lag_ms > MAX_LAG_MS:
        found.append(
            f"simulated part: the load generator sent {outcome.lag_ms:.0f} ms late, it lacked CPU"
        )
    if outcome.outside_cpu is not None and outcome.outside_cpu > MAX_OUTSIDE:
        found.append(
            f"real part: processes outside the demo used {outcome.outside_cpu:.0%} of the machine"
        )
    return found


def _shortfalls(outcome: Outcome) -> list[str]:
    return [text for text, holds in _demands(outcome) if not holds]


def _demands(outcome: Outcome) -> list[tuple[str, bool]]:
    enough_steps = min(outcome.steps_before, outcome.steps_after)
    demands = [
        (f"{outcome.lost} requests lost", outcome.lost == 0),
        (f"{outcome.restarts} container restarts", outcome.restarts == 0),
        (f"real part: {outcome.replaced_pods} pods replaced", outcome.replaced_pods == 0),
        (
            f"real part: {_counted(outcome.itl_before, GAPS)} already before tuning, "
            "so there was nothing to mend",
            outcome.itl_before.interval[1] < OBJECTIVE,
        ),
        ("real part: the live knobs did not move", outcome.budget_moved),
        (
            f"real part: the engines made only {enough_steps} steps before or after tuning, "
            f"{MIN_STEPS} needed",
            enough_steps >= MIN_STEPS,
        ),
        (
            f"simulated part: judged over {outcome.ttft_after.n} requests, {MIN_REQUESTS} needed",
            outcome.ttft_after.n >= MIN_REQUESTS,
        ),
        (_recovery_text(outcome), _recovered(outcome)),
        (
            "simulated part: no live move before the first new replica served",
            _moved_first(outcome),
        ),
        (
            f"simulated part: replicas stayed at {outcome.replicas_end} after the load fell",
            outcome.replicas_end < outcome.replicas_peak,
        ),
    ]
    return demands + [
        (f"{part}: {_counted(found, what)} {when}; {OBJECTIVE:.0%} wanted", _holds(found))
        for part, found, what, when in (
            ("real part", outcome.itl_after, GAPS, "after tuning"),
            ("real part", outcome.real_ttft_after, FIRSTS, "after tuning"),
            ("simulated part", outcome.ttft_after, FIRSTS, "once it should have recovered"),
            ("simulated part", outcome.simulated_itl_after, GAPS, "once it should have recovered"),
        )
    ]


def _counted(found: Attainment, what: str) -> str:
    return f"{found.good} of {found.total} {what} in time"


def _holds(attainment: Attainment) -> bool:
    return attainment.n > 0 and attainment.interval[1] >= OBJECTIVE


def _moved_first(outcome: Outcome) -> bool:
    if outcome.first_move_s is None or outcome.first_serving_s is None:
        return False
    return outcome.first_move_s < outcome.first_serving_s


def recovery_limit_s(cold_start_s: float) -> float:
    """Longest recovery that is still good."""
    return COLD_STARTS_TO_RECOVER * cold_start_s + RECOVERY_GRACE_S


def _recovered(outcome: Outcome) -> bool:
    if outcome.recovery_s is None or outcome.cold_start_s is None:
        return False
    return outcome.recovery_s <= recovery_limit_s(outcome.cold_start_s)


def _recovery_text(outcome: Outcome) -> str:
    if outcome.cold_start_s is None:
        return "simulated part: no replica was added"
    limit = recovery_limit_s(outcome.cold_start_s)
    if outcome.recovery_s is None:
        return f"simulated part: no recovery, {limit:.0f} s allowed"
    return f"simulated part: recovery took {outcome.recovery_s:.0f} s, {limit:.0f} s allowed"


def _figures(outcome: Outcome) -> str:
    return " ".join(
        (
            f"requests={outcome.requests}",
            f"lost={outcome.lost}",
            f"itl_attainment_before={_share(outcome.itl_before)}",
            f"itl_attainment_after={_share(outcome.itl_after)}",
            f"real_ttft_attainment_after={_share(outcome.real_ttft_after)}",
            f"ttft_attainment_after={_share(outcome.ttft_after)}",
            f"simulated_itl_attainment_after={_share(outcome.simulated_itl_after)}",
            f"recovery_s={_seconds(outcome.recovery_s)}",
            f"cold_start_s={_seconds(outcome.cold_start_s)}",
            f"replicas_peak={outcome.replicas_peak}",
            f"restarts={outcome.restarts}",
            "host_cpu=" + ("unknown" if outcome.host_cpu is None else f"{outcome.host_cpu:.2f}"),
        )
    )


def _share(attainment: Attainment) -> str:
    return f"{attainment.share:.3f}" if attainment.n else "none"


def _seconds(value: float | None) -> str:
    return "none" if value is None else f"{value:.1f}"
