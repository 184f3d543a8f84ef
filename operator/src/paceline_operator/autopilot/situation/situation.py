"""Everything both loops look at, derived once a tick from observation and memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from paceline_operator.api.v1alpha1 import Mode, SloMetric
from paceline_operator.autopilot.demand.forecast import Demand, Past, forecast
from paceline_operator.autopilot.measurement import cold_starts
from paceline_operator.autopilot.measurement.attainment import measure
from paceline_operator.autopilot.measurement.objectives import is_missed
from paceline_operator.autopilot.plant.capacity import Bound, Terms, capacity_rps
from paceline_operator.autopilot.plant.plant import build_plant
from paceline_operator.autopilot.plant.prior import prior_of
from paceline_operator.autopilot.plant.workload import known
from paceline_operator.autopilot.situation.goals import Goals
from paceline_operator.autopilot.situation.scene import RECENT_S
from paceline_operator.autopilot.vocabulary.arbitration import Cause, Stance, stance
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.policy import Policy
from paceline_operator.autopilot.vocabulary.window import StepClass

REPLICA_EVERY_S = 15.0
OVERLOAD_S = 120.0
RELIABLE_SD = 0.25
BACK_OFF = 0.8
RAISE_FACTOR = 1.25
QUEUED_SHARE = 0.5
"""Of the TTFT target: prompts that wait longer are no chance of a steady load."""
_Z95 = 1.645


@dataclass(frozen=True, kw_only=True)
class Situation(Goals):
    """One instant, understood: what is missed and why, and what a replica carries."""

    @cached_property
    def itl_violated(self) -> bool:
        """Whether gaps since the last live move prove that an objective is missed."""
        return is_missed(self.itl_objectives, self.since_change)

    @cached_property
    def ttft_violated(self) -> bool:
        """Whether requests since the last live move or new pod prove the same."""
        return self.is_late((*self.ttft_objectives, *self.e2e_objectives))

    @cached_property
    def cause(self) -> Cause:
        """Which steps break ITL."""
        target = self._itl_missed_ms
        if target is None:
            return Cause.NONE
        work, decode = self.plant.workload, self.since_change.moments(StepClass.DECODE_ONLY)
        # A spread would let one stalled step pass for slow decoding; the model refuses it.
        typical_ms = self.plant.decode_ms(work.rows_p95, work.kv_p95)
        if max(typical_ms, 1e3 * decode.mean("t")) > target:
            return Cause.DECODE
        mixed = self.since_change.moments(StepClass.MIXED)
        if 1e3 * (mixed.mean("t") + _Z95 * mixed.spread("t")) > target:
            return Cause.PREFILL
        return Cause.UNKNOWN

    @property
    def _itl_missed_ms(self) -> float | None:
        """Strictest ITL target that is missed, whatever its percentile."""
        missed = (o for o in self.itl_objectives if measure(o, self.since_change).met is False)
        return min((float(each.target_ms) for each in missed), default=None)

    @cached_property
    def stance(self) -> Stance:
        """What the loops may do."""
        return stance(self.cause, ttft_violated=bool(self.late))

    @cached_property
    def late(self) -> tuple[SloMetric, ...]:
        """What is late although an idle replica would give it in time: first tokens, answers."""
        is_first_late = self.attainable[0] is not None and self.is_late(self.ttft_objectives)
        found = [SloMetric.TTFT] if is_first_late else []
        if self.is_late(self.e2e_objectives):
            found.append(SloMetric.E2E)
        return tuple(found)

    def capacity_at(self, budget: int) -> tuple[float, Bound | None]:
        """Corrected requests per second of one replica, and what ends them there.

        Of what can be met: a target that nothing meets says nothing about the right size.
        """
        terms = self._attainable_terms(budget)
        rps, limit = capacity_rps(self.plant, terms)
        factor = self.memory.capacity_factor
        if factor <= 1.0 or limit is not Bound.TTFT:
            return rps * min(1.0, factor), limit
        # Only the wait for a first token is an estimate that may be too careful.
        most, other = capacity_rps(self.plant, replace(terms, ttft_ms=None))
        return (rps * factor, limit) if rps * factor < most else (most, other)

    @cached_property
    def uncorrected_rps(self) -> float | None:
        """What the model alone says of one replica at the budget in force; None while unknown.

        Engines that pace themselves use about what keeps within the ITL target.
        """
        budget = self.settled_budget if self.is_paced else self.knobs.max_num_batched_tokens
        if self.plant.uncertainty(budget) > RELIABLE_SD:
            return None
        return capacity_rps(self.plant, self._attainable_terms(budget))[0]

    def _attainable_terms(self, budget: int) -> Terms:
        ttft_ms, itl_ms = self.attainable
        return replace(self.terms(budget), ttft_ms=ttft_ms, itl_ms=itl_ms)

    @cached_property
    def overload(self) -> tuple[float, float] | None:
        """Requests per second offered, and what one replica holds, where no budget fits them.

        Over two minutes: what comes and goes sooner is the affair of budget and queue.
        """
        if not self.model_trusted or not self.fleet.serving or self.ttft_target_ms is None:
            return None
        window, work = self.fleet.last(OVERLOAD_S), self.plant.workload
        if window.length_s < OVERLOAD_S / 2:
            return None
        offered = window.offered_tokens / window.length_s / max(1.0, work.prompt_mean)
        holds = self.capacity_at(self.cap_or_floor)[0]
        return (offered, holds) if offered > holds * len(self.fleet.serving) else None

    @cached_property
    def coming_budget(self) -> int:
        """Budget the knob loop will have reached when a replica ordered now serves."""
        now = self.knobs.max_num_batched_tokens
        if self.policy.tuning_mode is not Mode.AUTO:
            return min(now, self.settled_budget)
        moves = 1 + int(self.cold_start_s // REPLICA_EVERY_S)
        reachable = now * RAISE_FACTOR ** min(moves, 20)
        return self.ladder().down(min(self.settled_budget, reachable))

    @cached_property
    def capacity_budget(self) -> int | None:
        """Largest budget up to the coming one at which the model is reliable, else None.

        Light load says little about full steps; a capacity at a smaller budget is a safe
        one, since a larger budget never carries less.
        """
        ladder, budget = self.ladder(), self.coming_budget
        while self.plant.uncertainty(budget) > RELIABLE_SD:
            lower = ladder.down(BACK_OFF * budget)
            if lower >= budget:
                return None
            budget = lower
        return budget

    @cached_property
    def capacity(self) -> tuple[float, Bound | None] | None:
        """Of one replica at the budget that will then be in force; None while unknown."""
        budget = self.capacity_budget
        return None if budget is None else self.capacity_at(budget)


def understand(policy: Policy, fleet: FleetObservation, memory: Memory, now_s: float) -> Situation:
    """Derives the situation."""
    workload, memory = known(fleet, memory, now_s)
    cold_start_s = cold_starts.longest_s(memory.cold_starts_s, policy.cold_start_prior_s)
    s = Situation(
        policy=policy,
        fleet=fleet,
        memory=memory,
        now_s=now_s,
        plant=build_plant(memory, prior_of(policy.profile), workload),
        demand=Demand(),
        cold_start_s=cold_start_s,
    )
    demand = forecast(
        fleet,
        workload,
        horizon_s=cold_start_s + REPLICA_EVERY_S,
        memory_s=policy.down_window_s,
        is_queued=_is_queued(s),
        past=Past(minutes=memory.minutes, surged_at_s=memory.bursts.began_at_s),
        prompt_share=s.prompt_share,
    )
    return replace(s, demand=demand)


def _is_queued(s: Situation) -> bool:
    """Whether waiting prompts need a good part of the TTFT target at the rate of late.

    Of one that can be met: before another, prompts wait whatever is offered.
    """
    target_ms = s.attainable[0]
    steps = s.fleet.last(RECENT_S).moments(StepClass.MIXED, StepClass.PREFILL_ONLY)
    if target_ms is None or not s.fleet.serving or not steps.of("t"):
        return False
    tokens_per_s = steps.of("p") / steps.of("t") * len(s.fleet.serving)
    return 1e3 * s.waiting.tokens > QUEUED_SHARE * target_ms * tokens_per_s
