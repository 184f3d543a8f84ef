"""`InferenceService`, version v1alpha1: the only source of its schema.

`crds/` is generated from these models. Constraints that span fields are CEL rules, declared
with the class they belong to (see `rule.py`). Only values that should be frozen into
stored objects are defaults in the schema; all others live here.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

GROUP = "paceline.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "InferenceService"
PLURAL = "inferenceservices"
SINGULAR = "inferenceservice"
SHORT_NAME = "infs"


class Model(BaseModel):
    """Base of all parts: frozen, camelCase on the wire, tolerant of unknown fields."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True
    )


class Runtime(StrEnum):
    """Engine software."""

    PACELINE = "Paceline"
    VLLM = "VLLM"


class DeviceType(StrEnum):
    """Where the forward pass runs."""

    AUTO = "Auto"
    CPU = "CPU"
    CUDA = "CUDA"
    SIMULATED = "Simulated"


class SloMetric(StrEnum):
    """Latency an objective is about."""

    TTFT = "TTFT"
    ITL = "ITL"
    TPOT = "TPOT"
    E2E = "E2E"


class Tier(StrEnum):
    """Service tier an objective is about."""

    INTERACTIVE = "interactive"
    BATCH = "batch"


class Mode(StrEnum):
    """Autonomy of one knob."""

    OFF = "Off"
    RECOMMEND = "Recommend"
    AUTO = "Auto"


class Pause(StrEnum):
    """Replica moves held back for now."""

    NONE = "None"
    IN = "In"
    OUT = "Out"
    ALL = "All"


class RoutingMode(StrEnum):
    """What stands in front of the pods."""

    PROXY = "Proxy"
    SERVICE = "Service"


class RolloutStrategy(StrEnum):
    """How pods are replaced."""

    AUTO = "Auto"
    SURGE = "Surge"
    REPLACE = "Replace"


Uri = Annotated[str, Field(min_length=1, max_length=1024)]
Name = Annotated[str, Field(min_length=1, max_length=63)]


class Draft(Model):
    """Draft model for speculative decoding."""

    uri: Uri


class ModelSource(Model):
    """Weights and the name they are served under."""

    uri: Uri | None = None
    revision: Annotated[str, Field(max_length=256)] | None = None
    served_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    draft: Draft | None = None


class DeviceSpec(Model):
    """Device; profile and load time are for the simulated one."""

    type: DeviceType = DeviceType.AUTO
    profile: Name | None = None
    load_seconds: Annotated[int, Field(ge=0, le=3600)] | None = None


class KvCache(Model):
    """KV cache of one engine."""

    dtype: Annotated[str, Field(max_length=16)] | None = None
    block_size: Annotated[int, Field(ge=1, le=1024)] | None = None
    memory: Annotated[str, Field(max_length=32)] | None = None
    prefix_caching: bool | None = None


class Speculative(Model):
    """Speculative decoding."""

    method: Annotated[str, Field(max_length=32)]
    num_tokens: Annotated[int, Field(ge=1, le=32)]


class BatchTokens(Model):
    """Range of `max_num_batched_tokens`; `max` is the ceiling allocated at start."""

    min: Annotated[int, Field(ge=16, le=1048576)] | None = None
    max: Annotated[int, Field(ge=16, le=1048576)] = 2048
    initial: Annotated[int, Field(ge=16, le=1048576)] | None = None


class EnvVar(Model):
    """Environment variable with a literal value."""

    name: Annotated[str, Field(min_length=1, max_length=256)]
    value: Annotated[str, Field(max_length=4096)] = ""


class EngineSpec(Model):
    """Start-up configuration of the engines; a change rolls the pods."""

    runtime: Runtime = Runtime.PACELINE
    device: DeviceSpec = DeviceSpec()
    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    dtype: Annotated[str, Field(max_length=16)] | None = None
    max_model_len: Annotated[int, Field(ge=16, le=16777216)] | None = None
    max_num_seqs: Annotated[int, Field(ge=1, le=4096)] | None = None
    tensor_parallel_size: Annotated[int, Field(ge=1, le=64)] = 1
    quantization: Annotated[str, Field(max_length=32)] | None = None
    kv_cache: KvCache = KvCache()
    speculative: Speculative | None = None
    batch_tokens: BatchTokens = BatchTokens()
    args: Annotated[
        tuple[Annotated[str, Field(max_length=1024)], ...], Field(max_length=64)
    ] = ()
    env: Annotated[tuple[EnvVar, ...], Field(max_length=64)] = ()


class Slo(Model):
    """One objective: at least `percentile` % of samples within `target_ms`."""

    name: Name
    tier: Tier = Tier.INTERACTIVE
    metric: SloMetric
    percentile: Annotated[int, Field(ge=50, le=99)] = 95
    target_ms: Annotated[int, Field(ge=1, le=2147483647)]
    window_seconds: Annotated[int, Field(ge=10, le=3600)] = 60


class Tuning(Model):
    """Autonomy of the live knobs."""

    mode: Mode = Mode.AUTO


class Scaling(Model):
    """Autonomy and limits of the replica knob.

    `mode` defaults to Auto where `max_replicas` is set and to Recommend elsewhere.
    """

    mode: Mode | None = None
    min_replicas: Annotated[int, Field(ge=0, le=1024)] = 1
    max_replicas: Annotated[int, Field(ge=1, le=1024)] | None = None
    down_window_seconds: Annotated[int, Field(ge=0, le=86400)] = 300
    override_seconds: Annotated[int, Field(ge=0, le=604800)] = 1800
    pause: Pause = Pause.NONE
    cost_per_replica_hour: Annotated[str, Field(max_length=32)] | None = None

    @property
    def effective_mode(self) -> Mode:
        """Mode in force, the default resolved."""
        if self.mode is not None:
            return self.mode
        return Mode.AUTO if self.max_replicas is not None else Mode.RECOMMEND


class Routing(Model):
    """How requests reach the pods."""

    mode: RoutingMode = RoutingMode.PROXY


class Rollout(Model):
    """How pods are replaced and how long one may drain."""

    strategy: RolloutStrategy = RolloutStrategy.AUTO
    drain_seconds: Annotated[int, Field(ge=1, le=86400)] = 300


class InferenceServiceSpec(Model):
    """Desired state; the tuned values are never written here."""

    model: ModelSource = ModelSource()
    engine: EngineSpec = EngineSpec()
    slos: Annotated[tuple[Slo, ...], Field(max_length=16)] = ()
    tuning: Tuning = Tuning()
    scaling: Scaling = Scaling()
    replicas: Annotated[int, Field(ge=0, le=1024)] | None = None
    routing: Routing = Routing()
    rollout: Rollout = Rollout()
    resources: dict[str, Any] | None = None
    template: dict[str, Any] | None = None


class Condition(Model):
    """A condition in `metav1.Condition` form."""

    type: Annotated[str, Field(max_length=316)]
    status: Annotated[str, Field(max_length=16)]
    reason: Annotated[str, Field(max_length=1024)]
    message: Annotated[str, Field(max_length=32768)] = ""
    observed_generation: int | None = None
    last_transition_time: str


class BudgetStatus(Model):
    """The live budget: what was asked for and what engines say is in force."""

    revision: int = 0
    desired: int | None = None
    effective: int | None = None
    running_seqs: int | None = None
    acknowledged: int = 0
    total: int = 0


class SloStatus(Model):
    """Measured state of one objective over its window."""

    name: str
    metric: SloMetric
    target_ms: int
    attainment_percent: float | None = None
    measured_ms: float | None = None
    samples: int = 0
    measured_at: str | None = None


class DecisionStatus(Model):
    """One explained decision, about one knob."""

    time: str
    knob: str
    action: str
    reason: str
    guard: str | None = None
    message: str = ""


class InferenceServiceStatus(Model):
    """Observed state. `memory` is what the autopilot must not forget over a restart."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    desired_replicas: int | None = None
    selector: str = ""
    budget: BudgetStatus = BudgetStatus()
    slos: tuple[SloStatus, ...] = ()
    model: dict[str, Any] | None = None
    last_decision: DecisionStatus | None = None
    decisions: tuple[DecisionStatus, ...] = ()
    conditions: tuple[Condition, ...] = ()
    memory: dict[str, Any] | None = None
