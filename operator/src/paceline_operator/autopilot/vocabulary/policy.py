"""What the user asked for, as the control law reads it."""

from __future__ import annotations

from dataclasses import dataclass

from paceline_operator.api.choice import FreezeScope, Pacing
from paceline_operator.api.v1alpha1 import (
    DeviceType,
    InferenceServiceSpec,
    Mode,
    Pause,
    SloMetric,
    Tier,
    TimeWindow,
)
from paceline_operator.autopilot.vocabulary.fleet import Tunables
from paceline_operator.autopilot.vocabulary.recurrence import Recurrence

DEFAULT_MAX_NUM_SEQS = 64
DEFAULT_COLD_START_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """At least `percentile` % of the samples of `metric` within `target_ms`."""

    name: str
    metric: SloMetric
    target_ms: int
    percentile: int = 95
    window_s: int = 60
    tier: Tier = Tier.INTERACTIVE

    @property
    def share(self) -> float:
        """Wanted share of good samples, 0..1."""
        return self.percentile / 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A higher minimum of replicas while a window is open."""

    name: str
    recurrence: Recurrence
    min_replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """Moves held while a window is open."""

    name: str
    recurrence: Recurrence
    scope: FreezeScope = FreezeScope.ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Objectives, autonomy and limits.

    Attributes:
        objectives: In the order of the spec, those of both tiers; all are measured.
        tuning_mode: Autonomy of the live knobs.
        scaling_mode: Autonomy of the replica knob, default resolved.
        pause: Replica moves held back for now.
        min_replicas: Lower limit of `Auto`.
        max_replicas: Upper limit of `Auto`, None for none.
        replicas: `spec.replicas`: the value where scaling is not `Auto`, else a floor that
            lasts `override_s` from when it was first seen.
        override_s: Life of that floor.
        schedules: Times with a higher minimum.
        freezes: Times in which moves are held.
        tuning_lowered: Whether the installation allows the live knobs less than was asked for.
        scaling_lowered: Whether it allows the replica knob less.
        is_braked: Whether it has taken that knob from an autopilot in mode Auto.
        down_window_s: Scale-in goes no lower than any recommendation this young.
        batch_min: Lower limit of the budget, None for the engine's floor.
        batch_max: Ceiling of the budget.
        batch_initial: Budget at start.
        max_num_seqs: Ceiling of running sequences.
        budget_step: Granularity of the budget where no engine reports one.
        profile: Named prior of the plant model, None for the generic one.
        cold_start_prior_s: Assumed cold start until one is measured.
        is_paced: Whether engines size each step for the ITL target themselves, below a budget
            that is their ceiling; else the budget does it for all steps alike.
    """

    objectives: tuple[Objective, ...] = ()
    tuning_mode: Mode = Mode.AUTO
    scaling_mode: Mode = Mode.RECOMMEND
    pause: Pause = Pause.NONE
    min_replicas: int = 1
    max_replicas: int | None = None
    replicas: int | None = None
    override_s: float = 1800.0
    schedules: tuple[Schedule, ...] = ()
    freezes: tuple[Freeze, ...] = ()
    tuning_lowered: bool = False
    scaling_lowered: bool = False
    is_braked: bool = False
    down_window_s: float = 300.0
    batch_min: int | None = None
    batch_max: int = 2048
    batch_initial: int = 2048
    max_num_seqs: int = DEFAULT_MAX_NUM_SEQS
    budget_step: int = 16
    profile: str | None = None
    cold_start_prior_s: float = DEFAULT_COLD_START_S
    is_paced: bool = True

    @property
    def steering(self) -> tuple[Objective, ...]:
        """Objectives that the loops act on: those of the interactive tier."""
        return tuple(o for o in self.objectives if o.tier is Tier.INTERACTIVE)

    def of_metric(self, *metrics: SloMetric) -> tuple[Objective, ...]:
        """Objectives on any of the metrics that the loops act on."""
        return tuple(o for o in self.steering if o.metric in metrics)


def budget_floor(running_seqs: int, step: int) -> int:
    """Smallest budget with which every running sequence decodes and one prompt advances.

    Engines compute the same; `step` is their granularity.
    """
    return -(-(running_seqs + 1) // step) * step


def initial_tunables(policy: Policy) -> Tunables:
    """Knobs a new fleet starts with, before anything was decided."""
    floor = budget_floor(policy.max_num_seqs, policy.budget_step)
    budget = min(policy.batch_max, max(policy.batch_initial, floor))
    return Tunables(max_num_batched_tokens=budget, max_num_running_seqs=policy.max_num_seqs)


def recurrence(window: TimeWindow) -> Recurrence:
    """A window of the spec as the calendar reads it."""
    lasts = window.duration_seconds
    return Recurrence(
        start=window.start,
        end=window.end,
        duration_s=None if lasts is None else float(lasts),
        zone=window.time_zone,
    )


def policy_from_spec(spec: InferenceServiceSpec) -> Policy:
    """Reads the control law's inputs from a spec, defaults resolved."""
    engine, scaling = spec.engine, spec.scaling
    batch = engine.batch_tokens
    load_s = engine.device.load_seconds
    return Policy(
        objectives=tuple(
            Objective(
                name=slo.name,
                metric=slo.metric,
                target_ms=slo.target_ms,
                percentile=slo.percentile,
                window_s=slo.window_seconds,
                tier=slo.tier,
            )
            for slo in spec.slos
        ),
        tuning_mode=spec.tuning.mode,
        is_paced=spec.tuning.pacing is Pacing.STEP_TIME,
        scaling_mode=scaling.effective_mode,
        pause=scaling.pause,
        min_replicas=scaling.min_replicas,
        max_replicas=scaling.max_replicas,
        replicas=spec.replicas,
        override_s=float(scaling.override_seconds),
        schedules=tuple(
            Schedule(name=s.name, recurrence=recurrence(s), min_replicas=s.min_replicas)
            for s in scaling.schedules
        ),
        freezes=tuple(
            Freeze(name=f.name, recurrence=recurrence(f), scope=f.holds)
            for f in spec.freeze_windows
        ),
        down_window_s=float(scaling.down_window_seconds),
        batch_min=batch.min,
        batch_max=batch.max,
        batch_initial=batch.initial or batch.max,
        max_num_seqs=engine.max_num_seqs or DEFAULT_MAX_NUM_SEQS,
        budget_step=128 if engine.device.type is DeviceType.CUDA else 16,
        profile=engine.device.profile,
        cold_start_prior_s=DEFAULT_COLD_START_S if load_s is None else load_s + 5.0,
    )
