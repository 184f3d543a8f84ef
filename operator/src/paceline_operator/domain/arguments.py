"""Start-up arguments of an engine, from the spec. Live values are never among them.

What engines get unasked is counted in generations: a fleet keeps the one that it was started
with until its spec starts it anew, so that an upgrade of the operator restarts nothing.
"""

from __future__ import annotations

from paceline_operator.api.choice import DeviceType, Runtime
from paceline_operator.api.v1alpha1 import EngineSpec, InferenceServiceSpec
from paceline_operator.autopilot.vocabulary.policy import DEFAULT_MAX_NUM_SEQS
from paceline_operator.domain.contract import BY_OBJECTIVES, DRAIN_GRACE_SECONDS, SUBCOMMAND, Flag
from paceline_operator.domain.errors import SpecError, UnsupportedModelError
from paceline_operator.domain.model_source import Weights
from paceline_operator.domain.quantity import whole

ADMIN_DIR = "/etc/paceline/admin"
TOKEN_FILE = "token"  # noqa: S105 - a file name
TUNABLES_DIR = "/etc/paceline/tunables"
QUEUE_BY_OBJECTIVES = 1
"""Generation from which on calls that would miss their TTFT objective are turned away."""
LATEST = QUEUE_BY_OBJECTIVES
_SWITCH = {None: None, True: "on", False: "off"}


class UnsupportedEngineError(SpecError):
    """An engine option that this version does not serve."""

    reason = "UnsupportedEngine"


def check(spec: InferenceServiceSpec) -> None:
    """Refuse what rendering would otherwise drop in silence.

    Raises:
        UnsupportedEngineError: An option is set that engines of this version lack.
        UnsupportedModelError: There is no model and the device is not simulated.
    """
    if spec.engine.runtime is not Runtime.PACELINE:
        raise UnsupportedEngineError("engine.runtime VLLM is not supported yet; use Paceline")
    for option, is_set in _unsupported(spec).items():
        if is_set:
            raise UnsupportedEngineError(f"{option} is not supported yet; remove it")
    if spec.model.uri is None and spec.engine.device.type is not DeviceType.SIMULATED:
        raise UnsupportedModelError("model.uri is required unless engine.device.type is Simulated")


def _unsupported(spec: InferenceServiceSpec) -> dict[str, bool]:
    engine = spec.engine
    return {
        "model.revision": spec.model.revision is not None,
        "model.draft": spec.model.draft is not None,
        "engine.tensorParallelSize above 1": engine.tensor_parallel_size > 1,
        "engine.quantization": engine.quantization is not None,
        "engine.dtype": engine.dtype not in (None, "float32"),
        "engine.speculative": engine.speculative is not None,
        "engine.kvCache.dtype": engine.kv_cache.dtype is not None,
    }


def arguments(
    name: str,
    spec: InferenceServiceSpec,
    weights: Weights,
    thread_count: int,
    defaults: int = LATEST,
) -> list[str]:
    """Arguments after the command; the user's own come last and so win.

    Args:
        name: Of the object.
        spec: Its parsed spec.
        weights: Where the model lies.
        thread_count: Threads of the engine.
        defaults: Generation of what it gets unasked.
    """
    flags: dict[Flag, object] = {
        Flag.MODEL: weights.path,
        Flag.SERVED_NAME: spec.model.served_name or name,
        **_engine_flags(spec.engine),
        Flag.THREADS: thread_count,
        Flag.ADMIN_TOKEN_FILE: f"{ADMIN_DIR}/{TOKEN_FILE}",
        Flag.TUNABLES_DIR: TUNABLES_DIR,
        Flag.DRAIN_SECONDS: spec.rollout.drain_seconds,
        Flag.DRAIN_GRACE_SECONDS: DRAIN_GRACE_SECONDS,
        **_defaults(defaults),
    }
    rendered = [f"{flag}={value}" for flag, value in flags.items() if value is not None]
    return [SUBCOMMAND, *rendered, *spec.engine.args]


def _defaults(generation: int) -> dict[Flag, object]:
    # Given whether there is such an objective or not: objectives come and go without a restart.
    has_limit = generation >= QUEUE_BY_OBJECTIVES
    return {Flag.MAX_QUEUE_SECONDS: BY_OBJECTIVES} if has_limit else {}


def _engine_flags(engine: EngineSpec) -> dict[Flag, object]:
    cache = engine.kv_cache
    return {
        Flag.DEVICE: engine.device.type.lower(),
        Flag.PROFILE: engine.device.profile,
        Flag.LOAD_SECONDS: engine.device.load_seconds,
        Flag.MAX_MODEL_LEN: engine.max_model_len,
        Flag.MAX_NUM_BATCHED_TOKENS: engine.batch_tokens.max,
        Flag.MAX_NUM_SEQS: engine.max_num_seqs or DEFAULT_MAX_NUM_SEQS,
        Flag.BLOCK_SIZE: cache.block_size,
        Flag.KV_CACHE_MEMORY: None if cache.memory is None else whole(cache.memory),
        Flag.PREFIX_CACHING: _SWITCH[cache.prefix_caching],
    }
