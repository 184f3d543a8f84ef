"""`status` of an `InferenceService`: what was observed, decided, and must be remembered.

Tuned values live here and in the children, never in spec. `summary.py` derives the short
strings that `kubectl get` prints; `conditions.py` sets the conditions.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from paceline_operator.api.base import Model, Time, free, list_map
from paceline_operator.api.choice import Mode, SloMetric, SloVerdict, Tier

MAX_DECISIONS = 20


class Condition(Model):
    """A condition in `metav1.Condition` form."""

    type: Annotated[str, Field(min_length=1, max_length=316)]
    """What the condition is about."""
    status: Annotated[
        str, Field(max_length=16, json_schema_extra={"enum": ["True", "False", "Unknown"]})
    ]
    """Whether it holds."""
    reason: Annotated[str, Field(min_length=1, max_length=1024)]
    """Cause, one CamelCase word."""
    message: Annotated[str, Field(max_length=32768)] = ""
    """Cause in plain words."""
    observed_generation: int | None = None
    """Generation of the spec the condition was computed from."""
    last_transition_time: Time
    """When `status` last changed."""


class BudgetStatus(Model):
    """The live budget: what was asked for and what engines say is in force."""

    revision: int = 0
    """Number of the last agreed change; only grows."""
    desired: int | None = None
    """Token budget asked for."""
    effective: int | None = None
    """Smallest token budget in force on any acknowledging engine."""
    running_seqs: int | None = None
    """Cap of concurrently running sequences asked for."""
    step_time_target_ms: float | None = None
    """Step time that engines are asked to keep by themselves, in milliseconds; none if absent."""
    acknowledged: int = 0
    """Engines that reported this revision."""
    total: int = 0
    """Engines that should report it."""


class SloStatus(Model):
    """Measured state of one objective over its window."""

    name: str
    """Name of the objective in spec."""
    metric: SloMetric
    """Latency it is about."""
    target_ms: int
    """Target when it was measured, in milliseconds."""
    tier: Tier = Tier.INTERACTIVE
    """Service tier it is about."""
    percentile: int = 95
    """Share of samples that must meet the target, in percent."""
    attainment_percent: float | None = None
    """Share of samples that met the target, in percent; nothing without samples in the window."""
    verdict: SloVerdict | None = None
    """What the samples prove: Held, Missed, or Open, which is neither; nothing without samples."""
    attainment_low_percent: float | None = None
    """Least share that is possible, where the engine counts in buckets beside the target."""
    attainment_high_percent: float | None = None
    """Greatest share that is possible then."""
    edges_ms: Annotated[tuple[float, ...], Field(max_length=2)] = ()
    """Edges of the buckets next to the target then; a target on an edge is counted exactly."""
    burn_hour: float | None = None
    """Error budget used over the last hour: share missed over share allowed."""
    burn_six_hours: float | None = None
    """The same over the last six hours."""
    measured_ms: float | None = None
    """The objective's percentile as measured, in milliseconds."""
    samples: int = 0
    """Samples in the window."""
    measured_at: Time | None = None
    """When the newest sample was measured; it stays once that has left the window."""


class CalendarStatus(Model):
    """What schedules and freeze windows say, where there are any."""

    min_replicas: int
    """Fewest replicas now."""
    schedule: str | None = None
    """Schedule that raises the minimum now, or that replicas are ordered ahead for."""
    min_replicas_changes_at: Time | None = None
    """When the fewest replicas change next."""
    next_min_replicas: int | None = None
    """Fewest replicas from then on."""
    frozen_by: str | None = None
    """Freeze window that is open."""
    frozen_until: Time | None = None
    """When it ends."""
    next_freeze_at: Time | None = None
    """When the next one opens."""


class ModesStatus(Model):
    """Autonomy in force, where the installation allows less than was asked for."""

    tuning: Mode
    """Of the live knobs."""
    scaling: Mode
    """Of the replica knob."""
    lowered: tuple[str, ...] = ()
    """Which of them the installation's `maxMode` lowers."""


class DecisionStatus(Model):
    """One explained decision, about one knob."""

    time: Time
    """When it was taken."""
    knob: str
    """What it moves: budget, running sequences, or replicas."""
    action: str
    """What was done, or Hold."""
    reason: str
    """Cause, one CamelCase word."""
    guard: str | None = None
    """Limit that stopped a larger move, if any."""
    message: str = ""
    """Cause in plain words, with the numbers."""
    before: int | None = None
    """Value of the knob before."""
    after: int | None = None
    """Value wanted."""
    expected: Annotated[dict[str, Any] | None, free()] = None
    """What the move should bring, units in the names."""
    observed: Annotated[dict[str, Any] | None, free()] = None
    """What was measured after it, under the same names."""


class CandidateStatus(Model):
    """A value of a knob that was looked at."""

    value: int
    """Of the knob."""
    chosen: bool = False
    """Whether it is what the knob is at after the decision."""
    reason: str
    """Why it was chosen, or why not; one CamelCase word."""
    message: str = ""
    """The same in plain words."""
    figures: Annotated[dict[str, Any] | None, free()] = None
    """What is predicted at it, units in the names."""


class NextStepStatus(Model):
    """What may happen next with a knob."""

    action: str
    """What."""
    value: int | None = None
    """Value it would go to, where that can be told."""
    earliest: Time | None = None
    """Not before this; nothing where no clock but the load decides."""
    waits_for: str
    """What has to end or to happen first, one CamelCase word."""
    message: str = ""
    """The same in plain words."""


class ExplainedDecision(DecisionStatus):
    """A decision with the figures it was made from."""

    inputs: Annotated[dict[str, Any] | None, free()] = None
    """The figures it was made from, units in the names."""
    considered: Annotated[tuple[CandidateStatus, ...], Field(max_length=16)] = ()
    """Values that were looked at, lowest first."""
    next_steps: Annotated[tuple[NextStepStatus, ...], Field(max_length=8)] = ()
    """What may happen next."""


class Summary(Model):
    """Short strings for the columns of `kubectl get`."""

    replicas: str = ""
    """Ready pods and wanted pods."""
    budget: str = ""
    """Token budget in force; engines that acknowledged it while not all have."""
    ttft: str = ""
    """Measured and target time to first token."""
    itl: str = ""
    """Measured and target inter-token latency."""


class InferenceServiceStatus(Model):
    """Observed state: what runs, how it measures up, and what was decided."""

    observed_generation: int = 0
    """Generation of the spec this status was computed from."""
    replicas: int = 0
    """Engine pods that exist."""
    ready_replicas: int = 0
    """Engine pods that are Ready."""
    desired_replicas: int | None = None
    """Replicas last asked for."""
    selector: str = ""
    """Label selector of the pods, for the scale subresource."""
    summary: Summary = Summary()
    """Short strings for the columns of `kubectl get`."""
    budget: BudgetStatus = BudgetStatus()
    """The live budget."""
    calendar: CalendarStatus | None = None
    """What schedules and freeze windows say."""
    modes: ModesStatus | None = None
    """Autonomy in force, where the installation allows less than was asked for."""
    slos: Annotated[tuple[SloStatus, ...], Field(max_length=16), list_map("name")] = ()
    """Each objective as measured."""
    model: Annotated[dict[str, Any] | None, free()] = None
    """Estimate of the engines' step time."""
    last_decision: ExplainedDecision | None = None
    """The newest decision, also one to hold."""
    knobs: Annotated[tuple[ExplainedDecision, ...], Field(max_length=3), list_map("knob")] = ()
    """The newest decision about each knob, holds included."""
    decisions: Annotated[tuple[DecisionStatus, ...], Field(max_length=MAX_DECISIONS)] = ()
    """The last changes, newest last."""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=32), list_map("type")] = ()
    """Ready, Reconciling, Stalled, MetricsFresh, SLOMet, SLOFeasible, ScalingLimited, Conflict."""
    memory: Annotated[dict[str, Any] | None, free()] = None
    """Private to the operator: windows that must survive its restart."""
