"""How many replicas demand asks for: feed-forward first, measured violations correct it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from paceline_operator.api.v1alpha1 import SloMetric
from paceline_operator.autopilot import phrases
from paceline_operator.autopilot.arbitration import Cause
from paceline_operator.autopilot.attainment import ENOUGH_SAMPLES, measure, wilson
from paceline_operator.autopilot.capacity import Bound
from paceline_operator.autopilot.capacity_evidence import carried_rps
from paceline_operator.autopilot.decision import Reason
from paceline_operator.autopilot.pending import backlog_rps, coming
from paceline_operator.autopilot.situation import REPLICA_EVERY_S, Situation

DOWN_INFLATION = 1.1
LEAST_RPS = 0.001
_QUIET_WINDOW_S = 10.0
_KNOWN_WINDOW_S = 45.0
_BESIDE_EACH_OTHER = 1.5
_ONE_MORE_FOR_QUEUE = (
    "First tokens, or whole answers, come too late and the budget can do no more: one more replica."
)
_ONE_MORE_TO_DECODE = "Decoding alone exceeds the ITL target: one more replica."


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Replicas asked for, before limits.

    Attributes:
        forecast: By feed-forward on demand; None where the model cannot say.
        wanted: With backlog and feedback.
        keep: With hysteresis: as many as must stay even if fewer could do.
        reason: What decides `wanted`.
        message: The arithmetic.
        capacity_rps: Of one replica, corrected; None where the model cannot say.
        bound: What ends it there.
        uncorrected: `wanted` by the model alone, in fractions: without what late tokens made of
            its capacity.
    """

    forecast: int | None
    wanted: int
    keep: int
    reason: Reason
    message: str
    capacity_rps: float | None
    bound: Bound | None = None
    uncorrected: float | None = None


def need(s: Situation, *, feasible: bool) -> Need:
    """What the fleet needs now."""
    base = _feed_forward(s)
    extra = _feedback(s, feasible=feasible)
    if extra is None or base.wanted > s.fleet.desired_replicas:
        return base
    reason, text = extra
    wanted = s.fleet.desired_replicas + 1
    return replace(base, wanted=wanted, keep=max(base.keep, wanted), reason=reason, message=text)


def _feed_forward(s: Situation) -> Need:
    now = s.fleet.desired_replicas
    if not s.has_traffic:
        return Need(
            forecast=1, wanted=1, keep=1, reason=Reason.NO_TRAFFIC,
            message="No requests in the last minute.", capacity_rps=None,
        )  # fmt: skip
    if s.capacity is None:
        return _unknown(now, Reason.MODEL_LEARNING, "The step-time model is still learning.")
    rps, limit = s.capacity
    if rps <= LEAST_RPS:
        text = f"By the model no load at all fits within the objectives (bound by {limit})."
        return _unknown(now, Reason.INFEASIBLE, text)
    model_rps, carried = rps / min(1.0, s.memory.capacity_factor), carried_rps(s)
    if carried is not None and carried > rps:
        rps, limit = carried, None
    demand = s.demand.forecast_rps
    backlog = backlog_rps(s)
    forecast = max(1, ceil(demand / rps + s.lacking))
    wanted = max(1, ceil((demand + backlog) / rps + s.lacking))
    text = (
        f"{phrases.rps(demand)} expected, {phrases.rps(rps)} per replica at budget "
        f"{s.capacity_budget} ({_bound_text(limit, carried, rps)})"
    )
    if wanted > forecast:
        text += f", and {round(s.waiting_tokens)} prompt tokens waiting"
    if s.sick:
        text += f", slow pods lack the work of {s.lacking:.1f}"
    return Need(
        forecast=forecast,
        wanted=wanted,
        keep=max(1, ceil(DOWN_INFLATION * demand / rps + s.lacking), wanted),
        reason=Reason.BACKLOG_DRAIN if wanted > forecast else Reason.DEMAND_FORECAST,
        message=f"{text}: {phrases.counted(wanted, 'replica')} needed.",
        capacity_rps=rps,
        bound=limit,
        uncorrected=(demand + backlog) / model_rps + s.lacking,
    )


def _bound_text(limit: Bound | None, carried: float | None, rps: float) -> str:
    if limit is not None:
        return f"bound by {limit.value}"
    return "bound by nothing" if carried != rps else "what each carries now"


def _unknown(now: int, reason: Reason, message: str) -> Need:
    return Need(
        forecast=None, wanted=now, keep=now, reason=reason, message=message, capacity_rps=None
    )


def _feedback(s: Situation, *, feasible: bool) -> tuple[Reason, str] | None:
    if coming(s) or len(s.fleet.serving) < s.fleet.desired_replicas:
        return None  # more are ordered than serve: still more orders bring nothing
    squeezed = s.memory.squeezed_seqs is not None
    if feasible and squeezed and len(s.fleet.serving) <= s.memory.squeezed_replicas:
        return Reason.ITL_DECODE_BOUND, _ONE_MORE_TO_DECODE
    if s.since_capacity.length_s < (_QUIET_WINDOW_S if s.capacity is None else _KNOWN_WINDOW_S):
        return None
    if feasible and s.cause is Cause.DECODE and s.stance.out_now and _fewer_rows_help(s):
        return Reason.ITL_DECODE_BOUND, _ONE_MORE_TO_DECODE
    if _late_for_want_of_replicas(s):
        return Reason.TTFT_QUEUE, _ONE_MORE_FOR_QUEUE
    return None


def _fewer_rows_help(s: Situation) -> bool:
    """Whether sequences decode beside each other, so that another replica takes some over.

    A handful of steps proves nothing, however slow.
    """
    rows = s.plant.workload.rows_p95
    if rows < _BESIDE_EACH_OTHER or s.plant.decode_ms(1.0) > (s.itl_target_ms or float("inf")):
        return False
    known = s.plant.decode.steps >= ENOUGH_SAMPLES and s.plant.decode_trusted_at(rows)
    return known or _itl_samples(s) >= ENOUGH_SAMPLES


def _itl_samples(s: Situation) -> int:
    found = s.policy.of_metric(SloMetric.ITL, SloMetric.TPOT)
    return max((measure(each, s.since_change).samples for each in found), default=0)


def _late_for_want_of_replicas(s: Situation) -> bool:
    if not (s.ttft_wants_capacity and _surely_late(s)):
        return False
    return s.stance.out_now or (s.stance.out_late and _budget_exhausted(s))


def _surely_late(s: Situation) -> bool:
    """Whether late first tokens are more than arrivals that came in a cluster.

    Requests of a cluster are late together: so many samples fewer there are.
    """
    return any(
        found.attainment is not None
        and wilson(found.attainment, found.samples / s.demand.dispersion)[1] < objective.share
        for objective in s.policy.of_metric(SloMetric.TTFT, SloMetric.E2E)
        for found in (measure(objective, s.since_capacity),)
    )


def _budget_exhausted(s: Situation) -> bool:
    """Whether the fast loop has no move left that would help first tokens."""
    if s.policy.tuning_mode != "Auto":
        return True
    if s.knobs.max_num_batched_tokens >= 0.9 * s.cap_or_floor:
        return s.now_s - s.memory.raised_at_s >= REPLICA_EVERY_S
    return not s.model_trusted
