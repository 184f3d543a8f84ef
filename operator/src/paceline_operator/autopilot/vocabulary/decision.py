"""What a tick says and wants done: decisions with their reasons, and actions as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from paceline_operator.api.v1alpha1 import SloMetric
from paceline_operator.autopilot.vocabulary.fleet import DataClass, Trial, Tunables
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.timetable import Timetable


class Knob(StrEnum):
    """What a decision is about; of a step time values are milliseconds, 0 for none."""

    BUDGET = "budget"
    STEP_TIME = "stepTime"
    RUNNING_SEQS = "runningSeqs"
    REPLICAS = "replicas"


class Action(StrEnum):
    """What was decided."""

    RAISE = "Raise"
    LOWER = "Lower"
    HOLD = "Hold"
    SCALE_OUT = "ScaleOut"
    SCALE_IN = "ScaleIn"


class Reason(StrEnum):
    """Why, or for a hold: what binds."""

    # Moves of the live knobs
    ITL_PREFILL_BOUND = "ItlPrefillBound"
    ITL_DECODE_BOUND = "ItlDecodeBound"
    ITL_UNEXPLAINED = "ItlUnexplained"
    ABOVE_MODEL_CAP = "AboveModelCap"
    TTFT_PRESSURE = "TtftPressure"
    DEMAND_EXPECTED = "DemandExpected"
    CANARY = "Canary"
    PROBE = "Probe"
    CANARY_HELD = "CanaryHeld"
    CANARY_ROLLED_BACK = "CanaryRolledBack"
    CAPACITY_ARRIVED = "CapacityArrived"
    OUTSIDE_LIMITS = "OutsideLimits"
    STEP_TIME_TARGET = "StepTimeTarget"
    # Moves of the replicas
    DEMAND_FORECAST = "DemandForecast"
    BACKLOG_DRAIN = "BacklogDrain"
    TTFT_QUEUE = "TtftQueue"
    DEMAND_LOW = "DemandLow"
    BELOW_MINIMUM = "BelowMinimum"
    ABOVE_MAXIMUM = "AboveMaximum"
    MANUAL_FLOOR = "ManualFloor"
    MANUAL_VALUE = "ManualValue"
    SCHEDULE = "Schedule"
    # Holds
    OBJECTIVES_MET = "ObjectivesMet"
    NO_OBJECTIVE = "NoObjective"
    NO_TRAFFIC = "NoTraffic"
    MODE_OFF = "ModeOff"
    RECOMMEND_ONLY = "RecommendOnly"
    PAUSED = "Paused"
    FROZEN = "Frozen"
    BLAST_RADIUS = "BlastRadius"
    FOREIGN_WRITER = "ForeignWriter"
    NO_PODS = "NoPods"
    DATA_STALE = "DataStale"
    DATA_ABSENT = "DataAbsent"
    PODS_UNMEASURED = "PodsUnmeasured"
    COOLDOWN = "Cooldown"
    DEAD_BAND = "DeadBand"
    ROLLOUT = "Rollout"
    AT_MODEL_CAP = "AtModelCap"
    AT_CEILING = "AtCeiling"
    NOT_PROVEN = "NotProven"
    AT_FLOOR = "AtFloor"
    NOT_TAKEN = "NotTaken"
    ITL_NOT_HELD = "ItlNotHeld"
    AT_MAXIMUM = "AtMaximum"
    AT_MINIMUM = "AtMinimum"
    CAPACITY_PENDING = "CapacityPending"
    PENDING_STUCK = "PendingStuck"
    UNSCHEDULABLE = "Unschedulable"
    DOWN_WINDOW = "DownWindow"
    COARSE_HISTOGRAM = "CoarseHistogram"
    KNOB_SQUEEZED = "KnobSqueezed"
    OVERLOADED = "Overloaded"
    MORE_THAN_NEEDED = "MoreThanNeeded"
    HEADROOM_KEPT = "HeadroomKept"
    MODEL_LEARNING = "ModelLearning"
    INFEASIBLE = "Infeasible"
    # Told once, no decisions
    POD_SLOW = "PodSlow"
    POD_RECOVERED = "PodRecovered"
    MODEL_MISMATCH = "ModelMismatch"


Inputs = dict[str, float | int | str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A value of a knob that was looked at.

    Attributes:
        value: Of the knob.
        chosen: Whether it is what the knob is at after the decision.
        reason: Why it was chosen, or why not.
        message: In plain words.
        figures: What is predicted at it, units in the names.
    """

    value: int
    chosen: bool
    reason: Reason
    message: str
    figures: Inputs = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """What may happen next with a knob, if what is measured now goes on.

    Attributes:
        action: What.
        value: Value it would go to, None where that cannot be told yet.
        earliest_s: Not before this, None where no clock but the load decides.
        waits_for: What has to end or to happen first.
        message: In plain words, without the moment.
    """

    action: Action
    waits_for: Reason
    message: str
    value: int | None = None
    earliest_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a move is expected to bring, to be held against what is measured afterwards.

    Attributes:
        due_s: When enough should have been measured.
        figures: What is predicted, units in the names.
    """

    due_s: float
    figures: Inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What was measured after a move.

    Attributes:
        knob: What was moved.
        moved_at_s: When.
        figures: What was measured, under the names of what was predicted.
    """

    knob: Knob
    moved_at_s: float
    figures: Inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One explained decision about one knob.

    Attributes:
        time_s: When.
        knob: About what.
        action: What, `HOLD` included.
        reason: Why.
        guard: Constraint that bound the move or forbade a larger one.
        message: One or two plain sentences for people.
        inputs: The figures it was made from, units in the names.
        before: Value of the knob before.
        after: Value wanted; differs from `before` for a recommended move too.
        applied: Whether an action was emitted; False for holds and recommendations.
        considered: Values that were looked at, lowest first.
        next_steps: What may happen next.
        expected: What the move should bring, None for what is not done.
    """

    time_s: float
    knob: Knob
    action: Action
    reason: Reason
    guard: Reason | None = None
    message: str = ""
    inputs: Inputs = field(default_factory=dict)
    before: int | None = None
    after: int | None = None
    applied: bool = False
    considered: tuple[Candidate, ...] = ()
    next_steps: tuple[NextStep, ...] = ()
    expected: Effect | None = None


@dataclass(frozen=True, slots=True)
class SetTunables:
    """Push these to every engine, and to the ConfigMap once agreed.

    Attributes:
        tunables: For all.
        trial: A pod that gets another budget meanwhile; the ConfigMap does not.
    """

    tunables: Tunables
    trial: Trial | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetReplicas:
    """Write this to the child's `/scale`."""

    replicas: int
    reason: Reason


ActionItem = SetTunables | SetReplicas


@dataclass(frozen=True, slots=True, kw_only=True)
class SloMeasurement:
    """One objective over its window, grown until there are samples enough.

    Attributes:
        name: Objective.
        metric: What it is about.
        percentile: Of the target.
        target_ms: Target.
        attainment: Share of good samples, None without samples; exact where the engine counts
            against the target, else interpolated between the edges of a histogram.
        low: Least share that the edges allow; the same where it is exact.
        high: Greatest share that they allow.
        edges_ms: Edges of the histogram next to the target, None where the share is exact.
        measured_ms: The percentile read from the histogram, None without samples.
        burn_hour: Share missed over share allowed in the last hour, None without samples.
        burn_six_hours: The same over six hours.
        samples: Independent samples: requests, or engine steps for ITL.
        measured_at_s: When the newest sample was measured, in the window or lately before it;
            None where none is remembered.
        window_s: Window used.
        met: True where attained, False where the samples prove that it is not, else None.
    """

    name: str
    metric: SloMetric
    percentile: int
    target_ms: int
    attainment: float | None = None
    low: float | None = None
    high: float | None = None
    edges_ms: tuple[float, float] | None = None
    measured_ms: float | None = None
    burn_hour: float | None = None
    burn_six_hours: float | None = None
    samples: int = 0
    measured_at_s: float | None = None
    window_s: float = 0.0
    met: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEstimate:
    """The plant model in words of the status: milliseconds.

    Attributes:
        base_ms: Step time without tokens, steps with prefill.
        per_prefill_token_ms: Of one prompt token.
        per_decode_row_ms: Of one decoding sequence.
        per_kv_token_ms: Of one resident KV token.
        per_chunk_context_ms: Of one (chunk token x context token).
        decode_step_ms: Predicted decode-only step at the present p95 load, None unknown.
        budget: The present budget.
        budget_step_ms: Predicted step that uses all of it, None unknown.
        budget_cap: Largest budget the model allows under the ITL target, None unknown.
        capacity_rps: Requests per second one replica holds within the objectives.
        steps: Steps behind the estimate (with forgetting).
        trusted: Whether it is good enough to act on.
        slow_pods: Name of a pod that is much slower than its pool -> how many times as slow.
    """

    base_ms: float
    per_prefill_token_ms: float
    per_decode_row_ms: float
    per_kv_token_ms: float
    per_chunk_context_ms: float
    decode_step_ms: float | None = None
    budget: int | None = None
    budget_step_ms: float | None = None
    budget_cap: int | None = None
    capacity_rps: float | None = None
    steps: float = 0.0
    trusted: bool = False
    slow_pods: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something to tell once that is no decision.

    Attributes:
        reason: One word.
        message: In plain words.
        warning: Whether somebody should look at it.
    """

    reason: Reason
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Feasibility:
    """Whether the objectives can be met at all; `message` holds the arithmetic."""

    feasible: bool | None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingLimit:
    """Why replicas are not what demand asks for, for the condition `ScalingLimited`."""

    reason: Reason
    message: str
    expires_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Result of one call of `pilot.step`.

    Attributes:
        decisions: One for each knob of the loops that were due; none where none was.
        actions: What to execute, in this order.
        memory: To be handed to the next call.
        slo: Every objective, measured.
        estimate: Plant model, None before there is any.
        feasibility: For the condition `SLOFeasible`.
        scaling_limit: For `ScalingLimited`, None when nothing limits.
        timetable: What the calendar says, None where there is none.
        data: Freshness of the serving pods as a whole, for `MetricsFresh`.
        notices: What has come to light at this tick.
        next_due_s: When `step` is worth calling again.
        observed: What was measured after earlier moves, told once.
    """

    decisions: tuple[Decision, ...]
    actions: tuple[ActionItem, ...]
    memory: Memory
    slo: tuple[SloMeasurement, ...] = ()
    estimate: ModelEstimate | None = None
    feasibility: Feasibility = Feasibility(feasible=None)
    scaling_limit: ScalingLimit | None = None
    timetable: Timetable | None = None
    data: DataClass = DataClass.ABSENT
    notices: tuple[Notice, ...] = ()
    next_due_s: float = 0.0
    observed: tuple[Observation, ...] = ()
