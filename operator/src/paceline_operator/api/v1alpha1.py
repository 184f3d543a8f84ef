"""`InferenceService`, version v1alpha1: the only source of its schema.

`crds/` is generated from these models by `crd.py`. Constraints that span fields are CEL
rules declared with the class they belong to (`rule.py`); the API server enforces them, so
these models only parse. Only defaults marked `stored()` are frozen into stored objects; all
others live here.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from paceline_operator.api.base import (
    Image,
    Model,
    Name,
    Quantity,
    Replicas,
    Tokens,
    Uri,
    Word,
    free,
    list_map,
    stored,
)
from paceline_operator.api.choice import (
    ConditionStatus,
    DeviceType,
    FreezeScope,
    Mode,
    Pacing,
    Pause,
    RolloutStrategy,
    RoutingMode,
    Runtime,
    SloMetric,
    Tier,
)
from paceline_operator.api.quantities import RESOURCES_SCHEMA
from paceline_operator.api.rule import Reason, Rule, checked, rules
from paceline_operator.api.status import (
    MAX_DECISIONS,
    BudgetStatus,
    Condition,
    DecisionStatus,
    ExplainedDecision,
    InferenceServiceStatus,
    SloStatus,
    Summary,
)
from paceline_operator.api.windows import FreezeWindow, Schedule, TimeWindow

__all__ = [
    "API_VERSION",
    "GROUP",
    "KIND",
    "MAX_DECISIONS",
    "MAX_NAME_LENGTH",
    "MAX_PROXY_REPLICAS",
    "MAX_WINDOW_SECONDS",
    "PLURAL",
    "SHORT_NAME",
    "SINGULAR",
    "VERSION",
    "BatchTokens",
    "BudgetStatus",
    "Condition",
    "ConditionStatus",
    "DecisionStatus",
    "DeviceSpec",
    "DeviceType",
    "Draft",
    "EngineSpec",
    "EnvVar",
    "ExplainedDecision",
    "FreezeScope",
    "FreezeWindow",
    "InferenceServiceSpec",
    "InferenceServiceStatus",
    "KvCache",
    "Mode",
    "Model",
    "ModelSource",
    "Name",
    "Pacing",
    "Pause",
    "Rollout",
    "RolloutStrategy",
    "Routing",
    "RoutingMode",
    "Runtime",
    "Scaling",
    "Schedule",
    "Slo",
    "SloMetric",
    "SloStatus",
    "Speculative",
    "Summary",
    "Tier",
    "TimeWindow",
    "Tuning",
    "Uri",
]

GROUP = "paceline.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "InferenceService"
PLURAL = "inferenceservices"
SINGULAR = "inferenceservice"
SHORT_NAME = "infs"

MAX_NAME_LENGTH = 40
"""With `-proxy` and the suffixes of ReplicaSet and Pod, every pod's name still fits 63."""
MAX_PROXY_REPLICAS = 64
"""Server slots in the proxy's configuration."""
MAX_WINDOW_SECONDS = 300
"""Measurements are kept for so long (`autopilot.slices.HISTORY_S`)."""


class Draft(Model):
    """Draft model for speculative decoding."""

    uri: Uri
    """Where its weights are, as `model.uri`."""


class ModelSource(Model):
    """Weights and the name they are served under."""

    uri: Uri | None = None
    """Where the weights are: `file:///path` (on the node, a file that ends in `.gguf` or a
    directory, mounted read-only, if the installation allows it) or `pvc://claim/path`."""
    revision: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """Revision of the weights, where the source has revisions; none of this version has."""
    served_name: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^\S+$")] | None = None
    """Model name that clients send; the object's own name where absent."""
    draft: Draft | None = None
    """Draft model for speculative decoding."""


class DeviceSpec(Model):
    """Device; profile and load time are for the simulated one."""

    model_config = rules(
        Rule(
            "!has(self.profile) || (has(self.type) && self.type == 'Simulated')",
            "profile is for the simulated device: set type: Simulated or remove it",
            field_path=".profile",
            reason=Reason.FORBIDDEN,
        ),
        Rule(
            "!has(self.loadSeconds) || (has(self.type) && self.type == 'Simulated')",
            "loadSeconds is for the simulated device: set type: Simulated or remove it",
            field_path=".loadSeconds",
            reason=Reason.FORBIDDEN,
        ),
    )

    type: DeviceType = DeviceType.AUTO
    """Where the forward pass runs. Auto (default): the best the engine has: in this version a CPU.
    CUDA: for engine images of later versions; pods ask for a GPU, are Unschedulable where no node
    has one, and those of this version end at start. Simulated: a real server, scheduler and KV
    cache around a step-time law; answers are noise."""
    profile: Name | None = None
    """Named step-time law of the simulated device, such as llama-3-8b-a100."""
    load_seconds: Annotated[int, Field(ge=0, le=3600)] | None = None
    """Load time in seconds that the simulated device pretends (0 where absent)."""


class KvCache(Model):
    """KV cache of one engine."""

    dtype: Word | None = None
    """Element type; the model's own where absent."""
    block_size: Annotated[int, Field(ge=8, le=1024, multiple_of=8)] | None = None
    """Tokens in one block, a multiple of 8 (16 where absent)."""
    memory: Quantity | None = None
    """Memory for the cache, such as 2Gi. Where absent up to 4Gi of what the container's limit, or
    without one the node's free memory, leaves: requests should then cover that too."""
    prefix_caching: bool | None = None
    """Whether computed blocks are kept for prompts that begin alike (true where absent). Never
    shared between tenants."""


class Speculative(Model):
    """Speculative decoding."""

    method: Word
    """How drafts are made."""
    num_tokens: Annotated[int, Field(ge=1, le=32)]
    """Tokens drafted per sequence and step."""


class BatchTokens(Model):
    """Range of `max_num_batched_tokens`; `max` is the ceiling allocated at start."""

    model_config = rules(
        Rule(
            "!has(self.min) || self.min <= self.max",
            "min must not exceed max (2048 where not set)",
            field_path=".min",
        ),
        Rule(
            "!has(self.initial) || self.initial <= self.max",
            "initial must not exceed max (2048 where not set)",
            field_path=".initial",
        ),
        Rule(
            "!has(self.initial) || !has(self.min) || self.min <= self.initial",
            "initial must not be below min",
            field_path=".initial",
        ),
    )

    min: Tokens | None = None
    """Lowest budget the autopilot may choose. Where absent, or lower, the engine's floor holds:
    one token per running sequence and one more."""
    max: Annotated[Tokens, stored()] = 2048
    """Highest budget; engines allocate for it at start, so a change rolls the pods."""
    initial: Tokens | None = None
    """Budget a new fleet starts with (`max` where absent)."""


class EnvVar(Model):
    """Environment variable with a literal value."""

    name: Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[^=\s]+$")]
    """Name of the variable."""
    value: Annotated[str, Field(max_length=4096)] = ""
    """Its value; use `template` for values from Secrets."""


_DECODE_ROWS = "self.maxNumSeqs * (1 + (has(self.speculative) ? self.speculative.numTokens : 0))"
_DEFAULT_MAX_NUM_SEQS = 64
_ROWS_TEXT = (
    f"must exceed maxNumSeqs ({_DEFAULT_MAX_NUM_SEQS} where not set) x (1 + "
    "speculative.numTokens), so that every running sequence decodes in one step and a prompt "
    "advances"
)


class EngineSpec(Model):
    """Start-up configuration of the engines; a change rolls the pods."""

    model_config = rules(
        Rule(
            f"self.batchTokens.max > {_DECODE_ROWS}",
            f"batchTokens.max {_ROWS_TEXT}",
            field_path=".batchTokens.max",
        ),
        Rule(
            f"!has(self.batchTokens.initial) || self.batchTokens.initial > {_DECODE_ROWS}",
            f"batchTokens.initial {_ROWS_TEXT}",
            field_path=".batchTokens.initial",
        ),
        Rule(
            "self.runtime != 'VLLM' || has(self.image)",
            "runtime VLLM needs engine.image: name the vLLM image to run",
            field_path=".image",
            reason=Reason.REQUIRED,
        ),
        Rule(
            "self.runtime != 'VLLM' || !has(self.device) || !has(self.device.type) || "
            "self.device.type != 'Simulated'",
            "the simulated device belongs to runtime Paceline",
            field_path=".device.type",
            reason=Reason.FORBIDDEN,
        ),
    )

    runtime: Annotated[Runtime, stored()] = Runtime.PACELINE
    """Engine software. VLLM is for later versions: this one makes such an object Stalled."""
    device: DeviceSpec = DeviceSpec()
    """Device; profile and load time are for the simulated one."""
    image: Image | None = None
    """Container image; the installation's where absent."""
    dtype: Word | None = None
    """Element type of the weights in memory; on CPU float32 where absent."""
    max_model_len: Annotated[int, Field(ge=16, le=16777216)] | None = None
    """Prompt plus output tokens of one request at most; the model's own where absent."""
    max_num_seqs: Annotated[int, Field(ge=1, le=4096), stored()] = _DEFAULT_MAX_NUM_SEQS
    """Ceiling of sequences that run at once in one engine; more wait. The autopilot may run
    fewer, live."""
    tensor_parallel_size: Annotated[int, Field(ge=1, le=64)] = 1
    """Devices that one engine spreads its weights over (1 where absent)."""
    quantization: Word | None = None
    """How weights are held in memory, where not as stored."""
    kv_cache: KvCache = KvCache()
    """KV cache of one engine."""
    speculative: Speculative | None = None
    """Speculative decoding; off where absent."""
    batch_tokens: Annotated[BatchTokens, stored()] = BatchTokens()
    """Range of `max_num_batched_tokens`, the tokens one engine step may compute: prompt tokens
    plus one per running sequence. More serve prompts sooner; fewer keep the cadence of running
    answers. The autopilot sets the value live, inside this range: with an ITL objective and
    `tuning.pacing: StepTime` to `max`, below which engines size each step; else as the load
    asks for."""
    args: Annotated[tuple[Annotated[str, Field(max_length=1024)], ...], Field(max_length=64)] = ()
    """Further flags of the engine. They come after the operator's and so win."""
    env: Annotated[tuple[EnvVar, ...], Field(max_length=64), list_map("name")] = ()
    """Further environment variables."""


def _as_kept(seconds: Any) -> Any:
    """Objects that were stored while more was admitted are judged over what is kept."""
    return min(seconds, MAX_WINDOW_SECONDS) if isinstance(seconds, int) else seconds


class Slo(Model):
    """One objective: at least `percentile` % of samples within `targetMs`."""

    name: Name
    """Name of the objective, unique in the object."""
    tier: Annotated[Tier, stored()] = Tier.INTERACTIVE
    """Service tier that it is about. Knobs and replicas follow the objectives of the interactive
    tier; those of the batch tier are measured and shown."""
    metric: SloMetric
    """TTFT: time to first token. ITL: every gap between emissions, pooled over requests.
    TPOT: mean gap of a request. E2E: whole request."""
    percentile: Annotated[int, Field(ge=50, le=99), stored()] = 95
    """Share of samples that must meet the target, in percent: 95 means that at least 95 % do."""
    target_ms: Annotated[int, Field(ge=1, le=2147483647)]
    """Target in milliseconds."""
    window_seconds: Annotated[
        int, Field(ge=10, le=MAX_WINDOW_SECONDS), BeforeValidator(_as_kept), stored()
    ] = 60
    """Time over which attainment is judged, in seconds. At most 300, for which measurements are
    kept; `burnHour` and `burnSixHours` of the status look further back."""


class Tuning(Model):
    """Autonomy of the live knobs."""

    mode: Mode = Mode.AUTO
    """Off: held at what a new fleet starts with. Recommend: decided and shown. Auto: decided and
    done (default)."""
    pacing: Pacing = Pacing.STEP_TIME
    """StepTime: each engine sizes its steps for the ITL objective, below the largest budget
    (default). Budget: one budget for all steps alike, moved as the load changes."""


class Scaling(Model):
    """Autonomy and limits of the replica knob.

    `mode` defaults to Auto where `max_replicas` is set and to Recommend elsewhere.
    """

    model_config = rules(
        Rule(
            "!has(self.mode) || self.mode != 'Auto' || has(self.maxReplicas)",
            "mode Auto needs maxReplicas, the most this fleet may cost",
            field_path=".maxReplicas",
            reason=Reason.REQUIRED,
        ),
        Rule(
            "!has(self.minReplicas) || !has(self.maxReplicas) || "
            "self.minReplicas <= self.maxReplicas",
            "minReplicas must not exceed maxReplicas",
            field_path=".minReplicas",
        ),
        Rule(
            "!has(self.schedules) || !has(self.maxReplicas) || "
            "self.schedules.all(s, s.minReplicas <= self.maxReplicas)",
            "a schedule's minReplicas must not exceed maxReplicas",
            field_path=".schedules",
        ),
    )

    mode: Mode | None = None
    """Off: replicas as said. Recommend: decided and shown. Auto: decided and done. Where absent,
    Auto if maxReplicas is set, else Recommend."""
    min_replicas: Replicas = 1
    """Fewest replicas the autopilot may choose in mode Auto (1 where absent; 0 counts as 1 in this
    version). In the other modes `spec.replicas` says how many there are."""
    max_replicas: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Most replicas the autopilot may choose: what the fleet may cost."""
    down_window_seconds: Annotated[int, Field(ge=0, le=86400)] = 300
    """Replicas fall no lower than the highest recommendation of so many seconds (300 where
    absent, and at least twice the measured cold start)."""
    override_seconds: Annotated[int, Field(ge=0, le=604800)] = 1800
    """Seconds that `spec.replicas` holds as a floor in mode Auto (1800 where absent)."""
    pause: Pause = Pause.NONE
    """Replica moves held back for now: None (default), In (fewer), Out (more) or All."""
    schedules: Annotated[tuple[Schedule, ...], Field(max_length=16), list_map("name")] = ()
    """Times with a higher minimum; where several hold at once, the highest does. In mode Recommend
    they are part of the recommendation."""
    cost_per_replica_hour: (
        Annotated[str, Field(min_length=1, max_length=32, pattern=r"^[0-9]+(\.[0-9]+)?$")] | None
    ) = None
    """What one replica costs an hour: a decimal number, in any currency."""

    @property
    def effective_mode(self) -> Mode:
        """Mode in force, the default resolved."""
        if self.mode is not None:
            return self.mode
        return Mode.AUTO if self.max_replicas is not None else Mode.RECOMMEND


class Routing(Model):
    """How requests reach the pods."""

    mode: Annotated[RoutingMode, stored()] = RoutingMode.PROXY
    """Proxy: HAProxy, least connections, drain-aware, at most 64 pods. Service: kube-proxy."""


class Rollout(Model):
    """How pods are replaced and how long one may drain."""

    strategy: RolloutStrategy = RolloutStrategy.AUTO
    """Surge: new pods first. Replace: old pods first, for nodes without room. Auto (default):
    Surge, but Replace where pods hold GPUs or no node has room."""
    drain_seconds: Annotated[int, Field(ge=1, le=86400)] = 300
    """Seconds that running requests of a leaving pod may take to end (300 where absent)."""


def _proxy_limit(field: str, path: str) -> Rule:
    return Rule(
        f"self.routing.mode != 'Proxy' || !has({field}) || {field} <= {MAX_PROXY_REPLICAS}",
        f"the proxy serves at most {MAX_PROXY_REPLICAS} replicas: lower {path[1:]} or set "
        "routing.mode: Service",
        field_path=path,
    )


def _proxy_scaling_limit(field: str) -> Rule:
    limit = _proxy_limit(f"self.scaling.{field}", f".scaling.{field}")
    return Rule(f"!has(self.scaling) || {limit.expression}", limit.message, limit.field_path)


class InferenceServiceSpec(Model):
    """Desired state; the tuned values are never written here."""

    model_config = rules(
        Rule(
            "(has(self.model) && has(self.model.uri)) || (has(self.engine.device) && "
            "has(self.engine.device.type) && self.engine.device.type == 'Simulated')",
            "model.uri says where the weights are; only engine.device.type: Simulated does without",
            field_path=".model.uri",
            reason=Reason.REQUIRED,
        ),
        _proxy_limit("self.replicas", ".replicas"),
        _proxy_scaling_limit("minReplicas"),
        _proxy_scaling_limit("maxReplicas"),
    )

    model: ModelSource = ModelSource()
    """Weights and the name they are served under."""
    engine: Annotated[EngineSpec, stored()] = EngineSpec()
    """Start-up configuration of the engines; a change rolls the pods. What this version does
    not serve makes the object Stalled and says so; nothing is dropped in silence."""
    slos: Annotated[
        tuple[Slo, ...],
        Field(max_length=16),
        list_map("name"),
        checked(
            Rule(
                "self.all(a, self.exists_one(b, b.metric == a.metric && b.tier == a.tier && "
                "b.percentile == a.percentile))",
                "two objectives share metric, tier and percentile: keep the stricter one",
            )
        ),
    ] = ()
    """Latency objectives, each: at least `percentile` % of samples within `targetMs`. Requests
    that wait too long, are refused or give up count as missed. Without any, nothing is tuned."""
    tuning: Tuning = Tuning()
    """Autonomy of the live knobs: token budget and running sequences."""
    scaling: Scaling = Scaling()
    """Autonomy and limits of the replica count."""
    freeze_windows: Annotated[tuple[FreezeWindow, ...], Field(max_length=16), list_map("name")] = ()
    """Times in which the autopilot moves nothing, or gives nothing back; what it would have done is
    said."""
    replicas: Annotated[Replicas, stored()] = 1
    """What `kubectl scale` writes. Scaling Off or Recommend: the number of pods. Auto: a floor
    until `scaling.overrideSeconds` have passed. Leave it out of manifests that are applied again,
    or they undo a scale."""
    routing: Annotated[Routing, stored()] = Routing()
    """How requests reach the pods."""
    rollout: Rollout = Rollout()
    """How pods are replaced and how long one may drain."""
    resources: Annotated[dict[str, Any] | None, Field(json_schema_extra=RESOURCES_SCHEMA)] = None
    """Requests and limits of the engine's container. Compute threads are the whole CPUs
    requested, at least one; a CPU limit stalls steps, so none is added."""
    template: Annotated[dict[str, Any] | None, free()] = None
    """Pod template overlay: `metadata` and `spec` of a pod, laid over the operator's. Containers,
    initContainers, volumes and env merge by name, volumeMounts by mountPath, ports by
    containerPort; other lists are replaced."""
