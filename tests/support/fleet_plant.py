"""A fleet in closed loop with the autopilot: router, cold starts, drains, scrapes. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from paceline_operator.autopilot import pilot
from paceline_operator.autopilot.vocabulary.decision import Decision, SetReplicas, SetTunables, Tick
from paceline_operator.autopilot.vocabulary.fleet import (
    DataClass,
    FleetObservation,
    PodObservation,
    PodTunables,
    Tunables,
)
from paceline_operator.autopilot.vocabulary.memory import Memory, dump_memory, load_memory
from paceline_operator.autopilot.vocabulary.policy import Policy, budget_floor, initial_tunables
from paceline_operator.autopilot.vocabulary.slices import Slices
from paceline_operator.autopilot.vocabulary.window import Counter, PodShare, Window
from paceline_operator.metrics.scraper import ABSENT_AFTER_S, STALE_AFTER_S
from tests.support.engine_plant import EnginePlant, Request, StepTime, Tally, Targets

TICK_S = 5.0


@dataclass(slots=True, eq=False)
class Pod:
    """One simulated pod."""

    uid: str
    engine: EnginePlant
    created_s: float
    ready_s: float
    draining: bool = False
    read_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How requests look: uniform between the two bounds."""

    prompt: tuple[int, int] = (100, 400)
    output: tuple[int, int] = (40, 120)


@dataclass(kw_only=True)
class FleetPlant:
    """Runs fleet and autopilot together.

    Attributes:
        policy: Handed to the autopilot; may be replaced while running.
        step_time: Law of the engines.
        rate: Requests per second at a time.
        sees: Whether scrapes succeed at a time.
        dark: UIDs of pods that do not answer at a time.
    """

    policy: Policy
    step_time: StepTime
    rate: Callable[[float], float]
    shape: Shape = field(default_factory=Shape)
    replicas: int = 2
    cold_start_s: float = 12.0
    seed: int = 1
    sees: Callable[[float], bool] = lambda _now: True
    dark: Callable[[float], set[str]] = lambda _now: set()
    now_s: float = 1000.0
    pods: list[Pod] = field(default_factory=list)
    memory: Memory = field(default_factory=Memory)
    knobs: Tunables | None = None
    slices: list[Window] = field(default_factory=list)
    ticks: list[Tick] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    done: list[Request] = field(default_factory=list)
    history: list[tuple[float, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._start_s = self.now_s
        self._made = 0
        self._slices = Slices()
        self._next_arrival_s = self.now_s
        self.knobs = initial_tunables(self.policy)
        for _ in range(self.replicas):
            self._create(ready_s=self.now_s)

    @property
    def elapsed_s(self) -> float:
        return self.now_s - self._start_s

    @property
    def budget(self) -> int:
        assert self.knobs is not None
        return self.knobs.max_num_batched_tokens

    @property
    def serving(self) -> list[Pod]:
        return [p for p in self.pods if p.ready_s <= self.now_s and not p.draining]

    def run(self, seconds: float) -> None:
        """Advances fleet and autopilot."""
        end_s = self.now_s + seconds
        while self.now_s < end_s - 1e-9:
            self._tick()

    def moves(self, since_s: float = 0.0) -> list[Decision]:
        """Applied decisions after an elapsed time."""
        return [d for d in self.decisions if d.applied and d.time_s - self._start_s >= since_s]

    def _tick(self) -> None:
        for _ in range(10):
            self.now_s = round(self.now_s + TICK_S / 10, 6)
            self._arrive()
            for pod in self.pods:
                pod.engine.advance(self.now_s)
        self._scrape()
        tick = pilot.step(self.policy, self._observe(), self.memory, self.now_s)
        self.memory = load_memory(dump_memory(tick.memory))
        self.ticks.append(tick)
        self.decisions.extend(tick.decisions)
        self._apply(tick)
        self.history.append((self.elapsed_s, self.budget, len(self.serving)))

    def _arrive(self) -> None:
        while self._next_arrival_s < self.now_s:
            rate = self.rate(self._next_arrival_s - self._start_s)
            if rate > 0 and self.serving:
                pod = min(self.serving, key=lambda p: p.engine.load)
                pod.engine.submit(
                    Request(
                        self._next_arrival_s,
                        self._random.randint(*self.shape.prompt),
                        self._random.randint(*self.shape.output),
                    )
                )
            self._next_arrival_s += self._random.expovariate(rate) if rate > 0 else 0.5

    def _scrape(self) -> None:
        grown = []
        for pod in self.pods if self.sees(self.elapsed_s) else ():
            if pod.uid in self.dark(self.elapsed_s):
                continue
            since_s, pod.read_s = pod.read_s, self.now_s
            if since_s is not None and self.now_s - since_s <= STALE_AFTER_S:
                window = pod.engine.tally.window(since_s, self.now_s)
                share = PodShare(window.steps, window.count(Counter.STEPS_AT_BUDGET), window.slo)
                grown.append(replace(window, pods={pod.uid: share}))
            pod.engine.tally = Tally()
            self.done.extend(pod.engine.finished)
            pod.engine.finished = []
        self.slices = list(self._slices.append(grown, self.now_s))
        self.pods = [p for p in self.pods if not (p.draining and not p.engine.load)]

    def _observe(self) -> FleetObservation:
        return FleetObservation(
            now_s=self.now_s,
            pods=tuple(self._describe(pod) for pod in self.pods),
            slices=tuple(self.slices),
            desired_replicas=self.replicas,
            desired_tunables=self.knobs,
            template_hash="t",
        )

    def _describe(self, pod: Pod) -> PodObservation:
        ready, engine = pod.ready_s <= self.now_s, pod.engine
        step, ceiling = self.policy.budget_step, self.policy.batch_max
        return PodObservation(
            name=pod.uid,
            uid=pod.uid,
            template_hash="t",
            ready=ready,
            created_s=pod.created_s,
            ready_since_s=pod.ready_s if ready else None,
            draining=pod.draining,
            data=self._freshness(pod),
            tunables=PodTunables(
                effective=engine.budget,
                floor=budget_floor(engine.seqs, step),
                ceiling=ceiling,
                step=step,
                running_seqs=engine.seqs,
                running_ceiling=self.policy.max_num_seqs,
            ),
            running=len(engine.running),
            waiting=len(engine.waiting),
            waiting_tokens=sum(r.prompt for r in engine.waiting),
        )

    def _freshness(self, pod: Pod) -> DataClass:
        if pod.read_s is None or self.now_s - pod.read_s > ABSENT_AFTER_S:
            return DataClass.ABSENT
        is_fresh = self.now_s - pod.read_s <= STALE_AFTER_S
        return DataClass.FRESH if is_fresh else DataClass.STALE

    def _apply(self, tick: Tick) -> None:
        for action in tick.actions:
            if isinstance(action, SetTunables):
                self._tune(action)
            elif isinstance(action, SetReplicas):
                self._scale(action.replicas)

    def _tune(self, action: SetTunables) -> None:
        self.knobs = action.tunables
        for pod in self.pods:
            tries = action.trial if action.trial and action.trial.uid == pod.uid else None
            pod.engine.budget = self.budget if tries is None else tries.budget
            pod.engine.seqs = action.tunables.max_num_running_seqs

    def _scale(self, replicas: int) -> None:
        self.replicas = replicas
        live = [p for p in self.pods if not p.draining]
        for pod in sorted(live, key=lambda p: p.engine.load)[: max(0, len(live) - replicas)]:
            pod.draining = True
        for _ in range(replicas - len(live)):
            self._create(ready_s=self.now_s + self.cold_start_s)

    def _create(self, ready_s: float) -> None:
        assert self.knobs is not None
        targets = Targets(*_targets(self.policy))
        engine = EnginePlant(
            self.step_time,
            targets,
            self.knobs.max_num_batched_tokens,
            self.knobs.max_num_running_seqs,
        )
        self._made += 1
        self.pods.append(Pod(f"pod-{self._made}", engine, self.now_s, ready_s))


def _targets(policy: Policy) -> Iterator[tuple[str, int]]:
    for metric in ("TTFT", "ITL"):
        found = [o for o in policy.objectives if o.metric == metric]
        yield (found[0].name, found[0].target_ms) if found else (metric.lower(), 10**9)


def profile_law(
    floor: tuple[float, float], line: tuple[float, float], per_kv_ms: float
) -> StepTime:
    """The simulated device's law, coefficients in ms."""

    def seconds(prefill: float, rows: float, kv: float, _context: float) -> float:
        tokens = prefill + rows
        return (
            max(floor[0] + floor[1] * tokens, line[0] + line[1] * tokens) + per_kv_ms * kv
        ) / 1e3

    return seconds


A100_70B = profile_law((25.0, 0.069), (16.2, 0.161), 0.000076)
A100_8B = profile_law((9.8, 0.025), (2.6, 0.0668), 0.000122)


def one_thread_cpu(prefill: float, rows: float, kv: float, context: float) -> float:
    """SmolLM2 on one thread, about as measured: seconds."""
    return (45.0 + 4.2 * prefill + 4.5 * rows + 0.004 * kv + 2e-4 * context) / 1e3
