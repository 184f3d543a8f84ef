"""Everything both loops look at, derived once a tick from observation and memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from paceline_operator.api.v1alpha1 import Mode, SloMetric
from paceline_operator.autopilot import cold_starts
from paceline_operator.autopilot.arbitration import Cause, Stance, stance
from paceline_operator.autopilot.attainment import ENOUGH_SAMPLES, LEAST_SAMPLES, measure
from paceline_operator.autopilot.capacity import (
    Bound,
    Terms,
    alone_e2e_ms,
    alone_ttft_ms,
    attainable,
    capacity_rps,
)
from paceline_operator.autopilot.demand import Demand, Past, forecast
from paceline_operator.autopilot.fleet import (
    DataClass,
    FleetObservation,
    PodObservation,
    Tunables,
    classify,
)
from paceline_operator.autopilot.ladder import Ladder
from paceline_operator.autopilot.memory import Memory
from paceline_operator.autopilot.objectives import TAIL, binding_share, is_missed, strictest_ms
from paceline_operator.autopilot.pace import sick
from paceline_operator.autopilot.plant import USABLE_SD, Plant, build_plant, paced_budget
from paceline_operator.autopilot.policy import Objective, Policy, budget_floor, initial_tunables
from paceline_operator.autopilot.prior import prior_of
from paceline_operator.autopilot.waiting import Waiting, waiting
from paceline_operator.autopilot.window import Counter, StepClass, Window, without
from paceline_operator.autopilot.workload import known

REPLICA_EVERY_S = 15.0
RECENT_S = 60.0
SETTLE_S = 20.0
OVERLOAD_S = 120.0
RELIABLE_SD = 0.25
BACK_OFF = 0.8
RAISE_FACTOR = 1.25
CLEARLY_MET = 0.95
"""Share of an ITL target below which decoding alone counts as fast enough again."""
QUEUED_SHARE = 0.5
"""Of the TTFT target: prompts that wait longer are no chance of a steady load."""
_Z95 = 1.645


@dataclass(frozen=True, kw_only=True)
class Situation:
    """One instant, understood.

    Attributes:
        policy: What is wanted.
        fleet: What is seen.
        memory: What is remembered, this tick's learning included.
        now_s: Operator's clock.
        plant: Step-time model.
        demand: Offered load.
        cold_start_s: From a replica ordered to one that serves.
    """

    policy: Policy
    fleet: FleetObservation
    memory: Memory
    now_s: float
    plant: Plant
    demand: Demand
    cold_start_s: float

    @cached_property
    def data(self) -> DataClass:
        """Freshness of the serving pods as a whole."""
        return classify(pod.data for pod in self.fleet.serving)

    @cached_property
    def half_blind(self) -> bool:
        """Whether some serving pod is not measured: then nothing is learned of the fleet."""
        return any(pod.data is not DataClass.FRESH for pod in self.fleet.serving)

    @cached_property
    def knobs(self) -> Tunables:
        """Live knobs as last agreed."""
        return self.fleet.desired_tunables or initial_tunables(self.policy)

    @cached_property
    def seqs_ceiling(self) -> int:
        """Most running sequences every engine takes."""
        reported = [p.tunables.running_ceiling for p in self.fleet.serving if p.tunables]
        return min([self.policy.max_num_seqs, *reported])

    def ladder(self, running_seqs: int | None = None) -> Ladder:
        """Budgets that policy and every engine allow, at a cap of running sequences."""
        reports = [p.tunables for p in self.fleet.serving if p.tunables]
        step = max([r.step for r in reports], default=self.policy.budget_step)
        ceiling = min([self.policy.batch_max, *(r.ceiling for r in reports)])
        seqs = self.knobs.max_num_running_seqs if running_seqs is None else running_seqs
        lowest = max(budget_floor(seqs, step), self.policy.batch_min or 0)
        return Ladder(floor=min(-(-lowest // step) * step, ceiling), ceiling=ceiling, step=step)

    @cached_property
    def prompt_share(self) -> float:
        """Share of a request's work that its prompt is, of what bounds a replica."""
        work = self.plant.workload
        if self.memory.bound == Bound.KV.value:
            return work.prompt_mean / (work.prompt_mean + work.output_mean)
        return 0.0 if self.memory.bound in (Bound.SEQUENCES.value, Bound.ITL.value) else 1.0

    @cached_property
    def itl_target_ms(self) -> float | None:
        """Strictest target on gaps between tokens, those on their tail first."""
        return strictest_ms(self.itl_objectives)

    @cached_property
    def ttft_target_ms(self) -> float | None:
        """Strictest target on the first token, those on its tail first."""
        return strictest_ms(self.ttft_objectives)

    @cached_property
    def itl_objectives(self) -> tuple[Objective, ...]:
        """Objectives on gaps that one sequence alone holds; all, where none or nobody can say."""
        found = self.policy.of_metric(SloMetric.ITL, SloMetric.TPOT)
        if len(found) < 2 or not self.decoding_known:
            return found
        alone_ms = self.plant.decode_ms(1.0)
        return tuple(o for o in found if alone_ms <= o.target_ms) or found

    @cached_property
    def ttft_objectives(self) -> tuple[Objective, ...]:
        """Objectives on first tokens that an idle replica holds; all, where none or unknown."""
        found = self.policy.of_metric(SloMetric.TTFT)
        if len(found) < 2 or not self.model_trusted:
            return found
        return tuple(o for o in found if self.alone_ms(o) <= o.target_ms) or found

    @cached_property
    def steering(self) -> tuple[Objective, ...]:
        """Objectives that the loops go by: of those of the policy the ones that can be met."""
        return (*self.ttft_objectives, *self.itl_objectives, *self.e2e_objectives)

    def alone_ms(self, objective: Objective) -> float:
        """First token of the longest prompt that an objective is about, on an idle replica."""
        terms = self._terms(self.settled_budget)
        return alone_ttft_ms(self.plant, replace(terms, ttft_share=objective.share))

    @cached_property
    def margin(self) -> float:
        """Share of the ITL target kept free."""
        return max(self.memory.margin, self.plant.reserve)

    @cached_property
    def step_time_target_ms(self) -> float | None:
        """Step time that engines are to keep by themselves; None where the budget does it.

        They leave room for the spread of single steps, so only what was learned is taken off.
        A target that decoding alone misses is not chased: prompts would pay for it in vain.
        """
        target_ms = self.itl_target_ms
        if target_ms is None or not self.policy.is_paced or self._is_hopeless(target_ms):
            return None
        return round((1 - self.memory.margin) * target_ms, 1)

    def _is_hopeless(self, itl_ms: float) -> bool:
        """Whether one sequence alone is known to miss a target, clearly met where it was before."""
        plant, was_so = self.plant, self.knobs.step_time_target_ms is None
        known = plant.decode.steps >= LEAST_SAMPLES and plant.decode_trusted_at(1.0)
        return known and plant.decode_ms(1.0) > (CLEARLY_MET * itl_ms if was_so else itl_ms)

    @property
    def is_paced(self) -> bool:
        """Whether engines size their steps by themselves, now or as soon as they are told to."""
        if self.policy.tuning_mode is not Mode.AUTO:
            return self.knobs.step_time_target_ms is not None
        return self.step_time_target_ms is not None

    @cached_property
    def unpaced(self) -> tuple[PodObservation, ...]:
        """Pods that serve and keep another step time than was agreed, or none."""
        wanted_ms, pods = self.knobs.step_time_target_ms, self.fleet.serving
        return tuple(p for p in pods if p.tunables and p.tunables.step_time_target_ms != wanted_ms)

    @cached_property
    def cap(self) -> int | None:
        """Largest budget whose full steps keep within the ITL target.

        None where not even the smallest does; the ceiling without such an objective.
        """
        target = self.itl_target_ms
        if target is None:
            return self.ladder().ceiling
        allowed_ms = (1 - self.margin) * target
        return self.ladder().largest(lambda b: self.plant.full_ms(b) <= allowed_ms)

    @cached_property
    def cap_or_floor(self) -> int:
        """The cap, or the smallest budget where there is none."""
        return self.ladder().floor if self.cap is None else self.cap

    @cached_property
    def settled_budget(self) -> int:
        """Where the budget ends up: the cap; where no budget fits, the one that is.

        Where nobody moves it, it stays, and so does the step time that engines keep.
        """
        now, kept_ms = self.knobs.max_num_batched_tokens, self.knobs.step_time_target_ms
        if self.policy.tuning_mode is not Mode.AUTO:
            kept = None if kept_ms is None else paced_budget(self.plant, kept_ms, self.ladder())
            return now if kept is None else min(self.cap_or_floor, kept)
        if self.is_paced:
            return self.cap_or_floor
        return now if self.cap is None else self.cap

    @cached_property
    def model_trusted(self) -> bool:
        """Whether the model may be acted on around the cap."""
        return self.plant.trusted_at(self.cap_or_floor)

    @cached_property
    def model_usable(self) -> bool:
        """Whether it may be acted on where measurements point the same way."""
        return self.plant.uncertainty(self.cap_or_floor) <= USABLE_SD

    @cached_property
    def sick(self) -> frozenset[str]:
        """UIDs of serving pods that are much slower than their pool."""
        return sick(self.memory.paces) & {pod.uid for pod in self.fleet.serving}

    @cached_property
    def lacking(self) -> float:
        """Replicas' worth of work that the sick pods do not do, compared with sound ones."""
        paces = {pace.uid: pace.slower for pace in self.memory.paces}
        return sum(1.0 - 1.0 / max(1.0, paces[uid]) for uid in self.sick)

    @cached_property
    def since_change(self) -> Window:
        """Measurements since the last live move, a minute at most.

        Not those of sick pods: the live knobs are set for the others.
        """
        moved_s = max(self.memory.lowered_at_s, self.memory.raised_at_s)
        since_s = max(moved_s, self._newest_s - RECENT_S)
        if not self.sick:
            return self.fleet.since(since_s)
        apart = next((w.start_s for w in self.fleet.slices if w.pods), since_s)
        return without(self.fleet.since(max(since_s, apart)), self.sick)

    @cached_property
    def since_capacity(self) -> Window:
        """Measurements since the newest pod has settled in, a minute at most.

        Until then requests that waited for it still count as late.
        """
        return self.fleet.since(self.capacity_since_s(RECENT_S))

    def capacity_since_s(self, longest_s: float) -> float:
        """Since when the fleet serves as it does now, `longest_s` before now at the earliest."""
        came_s = (pod.came_s(2 * self.cold_start_s) for pod in self.fleet.serving)
        return max([self._newest_s - longest_s, *(each + SETTLE_S for each in came_s)])

    @property
    def _newest_s(self) -> float:
        return self.fleet.slices[-1].end_s if self.fleet.slices else self.now_s

    @cached_property
    def itl_violated(self) -> bool:
        """Whether gaps since the last live move prove that an objective is missed."""
        return is_missed(self.itl_objectives, self.since_change)

    @cached_property
    def ttft_violated(self) -> bool:
        """Whether requests since the last live move or new pod prove the same."""
        return self._is_late((*self.ttft_objectives, *self.e2e_objectives))

    def _is_late(self, objectives: tuple[Objective, ...]) -> bool:
        shorter = min(self.since_change, self.since_capacity, key=lambda w: w.length_s)
        return is_missed(objectives, shorter)

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
    def has_traffic(self) -> bool:
        """Whether anything was asked or answered in the last minute."""
        lately = self.fleet.last(RECENT_S)
        busy = self.waiting.requests > 0 or any(p.running for p in self.fleet.serving)
        return busy or lately.count(Counter.REQUESTS_RECEIVED) > 0 or lately.moments().count > 0

    @cached_property
    def waiting(self) -> Waiting:
        """What waits on all serving pods."""
        return waiting(self.fleet)

    @cached_property
    def usual_start_s(self) -> float:
        """A cold start as most are; `cold_start_s` is the longest to be expected."""
        known_s = self.memory.cold_starts_s
        prior_s = self.policy.cold_start_prior_s
        return cold_starts.usual_s(known_s, prior_s) if known_s else self.cold_start_s

    def terms(self, budget: int) -> Terms:
        """Conditions under which a replica works at a budget."""
        return replace(
            self._terms(budget),
            ttft_ms=self.ttft_target_ms,
            ttft_share=binding_share(self.ttft_objectives),
        )

    def _terms(self, budget: int) -> Terms:  # without an objective on first tokens
        seqs = self.memory.squeezed_seqs or self.knobs.max_num_running_seqs
        pools = [p.kv_capacity_tokens for p in self.fleet.serving if p.kv_capacity_tokens]
        return Terms(
            budget=budget,
            running_seqs=seqs,
            itl_ms=self.itl_target_ms,
            margin=self.margin,
            kv_capacity_tokens=min(pools, default=None),
        )

    @cached_property
    def attainable(self) -> tuple[float | None, float | None]:
        """TTFT and ITL targets that an idle replica meets; all, while nobody can say."""
        if not self.model_trusted:
            return self.ttft_target_ms, self.itl_target_ms
        found = attainable(self.plant, self.terms(self.settled_budget))
        return found.ttft_ms, found.itl_ms

    @cached_property
    def late(self) -> tuple[SloMetric, ...]:
        """What is late although an idle replica would give it in time: first tokens, answers."""
        is_first_late = self.attainable[0] is not None and self._is_late(self.ttft_objectives)
        found = [SloMetric.TTFT] if is_first_late else []
        if self._is_late(self.e2e_objectives):
            found.append(SloMetric.E2E)
        return tuple(found)

    @cached_property
    def e2e_objectives(self) -> tuple[Objective, ...]:
        """Objectives on whole answers that are not hopeless."""
        return tuple(o for o in self.policy.of_metric(SloMetric.E2E) if o not in self.e2e_hopeless)

    @cached_property
    def e2e_hopeless(self) -> tuple[Objective, ...]:
        """Those that are missed where a mean answer alone takes longer than nearly all may.

        Of a median that would prove nothing: half of the answers are shorter.
        """
        if not self.decoding_known or self.plant.workload.answers < ENOUGH_SAMPLES:
            return ()
        tail = (o for o in self.policy.of_metric(SloMetric.E2E) if o.percentile >= TAIL)
        return tuple(
            o for o in tail if o.target_ms < alone_e2e_ms(self.plant) and self._is_late((o,))
        )

    @cached_property
    def decoding_known(self) -> bool:
        """Whether decoding of one sequence is known, whatever is of steps with prompt tokens."""
        return self.plant.decode.steps >= ENOUGH_SAMPLES and self.plant.decode_trusted_at(1.0)

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
