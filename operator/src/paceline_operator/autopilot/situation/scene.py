"""What is seen and remembered at one instant, and what follows from it alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from paceline_operator.autopilot.demand.forecast import Demand
from paceline_operator.autopilot.measurement import cold_starts
from paceline_operator.autopilot.measurement.attainment import ENOUGH_SAMPLES
from paceline_operator.autopilot.measurement.objectives import is_missed
from paceline_operator.autopilot.measurement.waiting import Waiting, waiting
from paceline_operator.autopilot.plant.capacity import Bound
from paceline_operator.autopilot.plant.ladder import Ladder
from paceline_operator.autopilot.plant.pace import sick
from paceline_operator.autopilot.plant.plant import Plant
from paceline_operator.autopilot.vocabulary.fleet import (
    DataClass,
    FleetObservation,
    PodObservation,
    Tunables,
    classify,
)
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.policy import (
    Objective,
    Policy,
    budget_floor,
    initial_tunables,
)
from paceline_operator.autopilot.vocabulary.window import Counter, Window, without

RECENT_S = 60.0
SETTLE_S = 20.0


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One instant, as it is seen and remembered.

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
    def unpaced(self) -> tuple[PodObservation, ...]:
        """Pods that serve and keep another step time than was agreed, or none."""
        wanted_ms, pods = self.knobs.step_time_target_ms, self.fleet.serving
        return tuple(p for p in pods if p.tunables and p.tunables.step_time_target_ms != wanted_ms)

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

    def is_late(self, objectives: tuple[Objective, ...]) -> bool:
        """Whether requests since the last live move or new pod prove that one of them is missed."""
        shorter = min(self.since_change, self.since_capacity, key=lambda w: w.length_s)
        return is_missed(objectives, shorter)

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

    @cached_property
    def decoding_known(self) -> bool:
        """Whether decoding of one sequence is known, whatever is of steps with prompt tokens."""
        return self.plant.decode.steps >= ENOUGH_SAMPLES and self.plant.decode_trusted_at(1.0)

    @cached_property
    def prompt_share(self) -> float:
        """Share of a request's work that its prompt is, of what bounds a replica."""
        work = self.plant.workload
        if self.memory.bound == Bound.KV.value:
            return work.prompt_mean / (work.prompt_mean + work.output_mean)
        return 0.0 if self.memory.bound in (Bound.SEQUENCES.value, Bound.ITL.value) else 1.0
