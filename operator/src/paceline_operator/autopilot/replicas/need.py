"""How many replicas demand asks for: feed-forward first, measured violations correct it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from paceline_operator.autopilot.plant.capacity import Bound
from paceline_operator.autopilot.replicas.capacity_evidence import carried_rps
from paceline_operator.autopilot.replicas.feedback import feedback
from paceline_operator.autopilot.replicas.hit_shares import share_with
from paceline_operator.autopilot.replicas.pending import backlog_rps
from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary import phrases
from paceline_operator.autopilot.vocabulary.decision import Reason

DOWN_INFLATION = 1.1
LEAST_RPS = 0.001
HIT_ROUNDS = 8


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
        model_rps: Of one replica by the model, which `capacity_rps` is at least.
        hit_share: What the prefix caches of that many replicas find.
        late_times: How many times what it should each replica carries, by late tokens; where
            `reason` is `TTFT_QUEUE`.
    """

    forecast: int | None
    wanted: int
    keep: int
    reason: Reason
    message: str
    capacity_rps: float | None
    bound: Bound | None = None
    uncorrected: float | None = None
    model_rps: float | None = None
    hit_share: float | None = None
    late_times: float | None = None


def need(s: Situation, *, feasible: bool) -> Need:
    """What the fleet needs now."""
    base = _feed_forward(s)
    extra = feedback(s, model=base.forecast, feasible=feasible)
    if extra is None or base.wanted >= extra.replicas:
        return base
    return replace(
        base,
        wanted=extra.replicas,
        keep=max(base.keep, extra.replicas),
        reason=extra.reason,
        message=extra.message,
        late_times=extra.late_times,
    )


def _feed_forward(s: Situation) -> Need:
    now = s.fleet.desired_replicas
    if not s.has_traffic:
        return Need(
            forecast=1, wanted=1, keep=1, reason=Reason.NO_TRAFFIC,
            message="No requests in the last minute.", capacity_rps=None,
        )  # fmt: skip
    if s.capacity is None:
        return _unknown(now, Reason.MODEL_LEARNING, "The step-time model is still learning.")
    if s.capacity[0] <= LEAST_RPS:
        text = f"By the model no load at all fits within the objectives (bound by {s.capacity[1]})."
        return _unknown(now, Reason.INFEASIBLE, text)
    demand, backlog = s.demand.forecast_rps, backlog_rps(s)
    each = _of_that_many(s, demand + backlog)
    rps = each.rps
    forecast = max(1, ceil(demand / rps + s.lacking))
    wanted = max(1, ceil((demand + backlog) / rps + s.lacking))
    text = (
        f"{phrases.rps(demand)} expected, {phrases.rps(rps)} per replica at budget "
        f"{s.capacity_budget} ({each.bound_text})"
    )
    if wanted > forecast:
        text += f", and {round(s.waiting.tokens)} prompt tokens waiting"
    if s.sick:
        text += f", slow pods lack the work of {s.lacking:.1f}"
    return Need(
        forecast=forecast,
        wanted=wanted,
        keep=max(1, ceil(DOWN_INFLATION * demand / rps + s.lacking), wanted),
        reason=Reason.BACKLOG_DRAIN if wanted > forecast else Reason.DEMAND_FORECAST,
        message=f"{text}: {phrases.counted(wanted, 'replica')} needed.",
        capacity_rps=rps,
        model_rps=each.model_rps,
        hit_share=each.hit_share,
        bound=None if each.is_carried else each.bound,
        uncorrected=(demand + backlog) * min(1.0, s.memory.capacity_factor) / each.model_rps
        + s.lacking,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Each:
    """What one replica of a fleet of some size carries.

    Attributes:
        model_rps: By the model.
        bound: What ends it there.
        hit_share: What prefix caches then find.
        rps: Counted on: what each carries now, where that is more.
    """

    model_rps: float
    bound: Bound | None
    hit_share: float
    rps: float

    @property
    def is_carried(self) -> bool:
        return self.rps > self.model_rps

    @property
    def bound_text(self) -> str:
        if self.is_carried:
            return "what each carries now"
        return "bound by nothing" if self.bound is None else f"bound by {self.bound.value}"


def _of_that_many(s: Situation, rps: float) -> _Each:
    """One replica of a fleet that carries so much: what caches find depends on how many there are.

    A few rounds, the last of which counts: one more or less finds nearly the same.
    """
    carried = carried_rps(s) or 0.0
    each, replicas = _one_of(s, len(s.fleet.serving), carried), len(s.fleet.serving)
    for _ in range(HIT_ROUNDS):
        needed = max(1, ceil(rps / each.rps + s.lacking))
        if needed == replicas:
            break
        each, replicas = _one_of(s, needed, carried), needed
    return each


def _one_of(s: Situation, replicas: int, carried: float) -> _Each:
    """One of so many; of as many as serve where the model says nothing of so many."""
    now_rps, bound = s.capacity or (0.0, None)
    measured, found = s.plant.workload.hit_rate, share_with(s, replicas)
    now = _Each(model_rps=now_rps, bound=bound, hit_share=measured, rps=max(now_rps, carried))
    if found == measured:
        return now
    work = replace(s.plant.workload, hit_rate=found)
    then = replace(s, plant=replace(s.plant, workload=work))
    rps, bound = then.capacity_at(s.capacity_budget or 0)
    if rps <= LEAST_RPS or then.attainable != s.attainable:
        return now
    # What is carried now is carried with what is found now.
    carried *= min(1.0, rps / now_rps)
    return _Each(model_rps=rps, bound=bound, hit_share=found, rps=max(rps, carried))


def _unknown(now: int, reason: Reason, message: str) -> Need:
    return Need(
        forecast=None, wanted=now, keep=now, reason=reason, message=message, capacity_rps=None
    )
