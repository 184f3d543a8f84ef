"""What is known of the engines a spec asks for: step time, KV cache, cold start; and where from.

What the caller says outright wins, then what was measured on the live fleet, then what the spec
itself names. Whatever is left is assumed, and said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from paceline_operator.api.v1alpha1 import InferenceServiceSpec
from paceline_operator.autopilot.plant.law import Law
from paceline_operator.autopilot.plant.plant import build_plant
from paceline_operator.autopilot.plant.prior import prior_of
from paceline_operator.autopilot.plant.workload import Workload
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.policy import policy_from_spec
from paceline_operator.simulator.law import FittedLaw, StepTime
from paceline_operator.simulator.profiles import PROFILES, find_profile

LEAST_STEPS = 30.0
"""Steps of each kind behind a measured law that is used."""
_ENGINE_PARTS: Mapping[str, Callable[[InferenceServiceSpec], object]] = {
    "model": lambda spec: spec.model,
    "engine.runtime": lambda spec: spec.engine.runtime,
    "engine.device": lambda spec: (spec.engine.device.type, spec.engine.device.profile),
    "engine.image": lambda spec: spec.engine.image,
    "engine.dtype": lambda spec: spec.engine.dtype,
    "engine.quantization": lambda spec: spec.engine.quantization,
    "engine.speculative": lambda spec: spec.engine.speculative,
    "engine.tensorParallelSize": lambda spec: spec.engine.tensor_parallel_size,
    "engine.kvCache.dtype": lambda spec: spec.engine.kv_cache.dtype,
    "engine.args": lambda spec: spec.engine.args,
    "resources": lambda spec: spec.resources,
    "template.spec.nodeSelector": lambda spec: _of_pods(spec, "nodeSelector"),
    "template.spec.affinity": lambda spec: _of_pods(spec, "affinity"),
}
"""What a step's time depends on."""
_CACHE_PARTS: Mapping[str, Callable[[InferenceServiceSpec], object]] = {
    **_ENGINE_PARTS,
    "engine.kvCache.memory": lambda spec: spec.engine.kv_cache.memory,
}
"""What the size of a KV cache depends on."""


class UnknownEnginesError(ValueError):
    """Nothing says how long a step takes; the text is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What the caller says outright; None for nothing.

    Attributes:
        profile: Name of a step-time profile.
        kv_tokens: Tokens the KV cache of one replica holds.
        cold_start_s: From a replica ordered to one that serves.
    """

    profile: str | None = None
    kv_tokens: int | None = None
    cold_start_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What is known of the live fleet.

    Attributes:
        source: Where from, in words.
        spec: Spec it was measured with.
        memory: What its autopilot has learned.
        trusted: Whether the autopilot trusts its step-time model.
        kv_tokens: Tokens the KV cache of one replica holds, None where unknown.
    """

    source: str
    spec: InferenceServiceSpec
    memory: Memory = field(default_factory=Memory)
    trusted: bool = True
    kv_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """Everything a simulated engine needs that no spec says.

    Attributes:
        law: Step time.
        kv_tokens: Tokens the KV cache of one replica holds.
        cold_start_s: From a replica ordered to one that serves.
        notes: Where each comes from, one sentence each.
    """

    law: StepTime
    kv_tokens: int
    cold_start_s: float
    notes: tuple[str, ...]


def engine_facts(
    spec: InferenceServiceSpec, said: Said, measured: Measured | None, longest_request: int
) -> EngineFacts:
    """The facts for a spec.

    Args:
        spec: What the fleet is asked to be.
        said: By the caller.
        measured: On the live fleet, None where there is none.
        longest_request: Prompt and answer of the load's longest request, tokens.

    Raises:
        UnknownProfileError: There is no profile of the name that is said.
        UnknownEnginesError: Nothing says how long a step takes.
    """
    law, step_note = _law(spec, said, measured)
    kv_tokens, kv_note = _kv_tokens(spec, said, measured, longest_request)
    cold_start_s, start_note = _cold_start(spec, said, measured)
    return EngineFacts(
        law=law,
        kv_tokens=kv_tokens,
        cold_start_s=cold_start_s,
        notes=(step_note, kv_note, start_note),
    )


def _law(spec: InferenceServiceSpec, said: Said, measured: Measured | None) -> tuple[StepTime, str]:
    """Step time, and the sentence about it."""
    if said.profile is not None:
        return _named(said.profile)
    own = spec.engine.device.profile
    changed = changed_engine(measured.spec, spec) if measured is not None else ()
    fitted = None if measured is None else fitted_law(measured)
    if measured is not None and fitted is not None and not (changed and own in PROFILES):
        note = f"Step time: as measured on {measured.source} {_coefficients(fitted)}"
        if not measured.trusted:
            note += ", an estimate that its autopilot does not trust yet"
        if changed:
            note += f"; that the spec changes {' and '.join(changed)} is not in it"
        return fitted, note + "."
    if own is not None:
        return _named(own)
    known = ", ".join(sorted(PROFILES))
    raise UnknownEnginesError(
        "nothing says how long a step of these engines takes: no live fleet has measured it and "
        f"the spec names no engine.device.profile; choose one with --profile: {known}"
    )


def _named(profile: str) -> tuple[StepTime, str]:
    found = find_profile(profile)
    return found.law, f"Step time: profile {profile} ({found.source})."


def fitted_law(measured: Measured) -> FittedLaw | None:
    """The law that the autopilot's evidence supports; None with hardly any evidence."""
    memory = measured.memory
    if min(memory.decode_fit.steps, memory.prefill_fit.steps) < LEAST_STEPS:
        return None
    prior = prior_of(measured.spec.engine.device.profile)
    plant = build_plant(memory, prior, Workload())
    return FittedLaw(decode=plant.decode.law, prefill=plant.prefill.law)


def changed_engine(before: InferenceServiceSpec, after: InferenceServiceSpec) -> tuple[str, ...]:
    """What differs of the things that step time depends on."""
    return _changed(_ENGINE_PARTS, before, after)


def _changed(
    parts: Mapping[str, Callable[[InferenceServiceSpec], object]],
    before: InferenceServiceSpec,
    after: InferenceServiceSpec,
) -> tuple[str, ...]:
    return tuple(name for name, of in parts.items() if of(before) != of(after))


def _of_pods(spec: InferenceServiceSpec, key: str) -> object:
    of_pods = (spec.template or {}).get("spec")
    return of_pods.get(key) if isinstance(of_pods, Mapping) else None


def _coefficients(law: FittedLaw) -> str:
    return f"(decoding {_formula(law.decode)}; with prompts {_formula(law.prefill)})"


def _formula(law: Law) -> str:
    terms = {
        "p": law.per_prefill_token_ms,
        "d": law.per_decode_row_ms,
        "k": law.per_kv_token_ms,
        "x": law.per_chunk_context_ms,
    }
    rest = "".join(f" + {value:.3g} {name}" for name, value in terms.items() if value)
    return f"{law.base_ms:.3g}{rest} ms"


def _kv_tokens(
    spec: InferenceServiceSpec,
    said: Said,
    measured: Measured | None,
    longest_request: int,
) -> tuple[int, str]:
    if said.kv_tokens is not None:
        return said.kv_tokens, f"KV cache: {said.kv_tokens:,} tokens a replica, as given."
    reported = None if measured is None else measured.kv_tokens
    changed = () if measured is None else _changed(_CACHE_PARTS, measured.spec, spec)
    if reported is not None and not changed:
        return reported, f"KV cache: {reported:,} tokens a replica, as its engines report."
    profile = PROFILES.get(said.profile or spec.engine.device.profile or "")
    if profile is not None:
        held = profile.kv_capacity_tokens
        return held, f"KV cache: {held:,} tokens a replica, from the profile."
    held = spec.engine.max_num_seqs * longest_request
    if reported is not None:
        return held, (
            f"KV cache: unknown, for the {reported:,} tokens that engines report are not those of "
            f"another {' and '.join(changed)}; assumed to hold {held:,} a replica, so that it "
            "never limits: pass what it will hold as --kv-tokens."
        )
    return held, (
        f"KV cache: assumed to hold {held:,} tokens a replica, so that it never limits; "
        "--kv-tokens says what it holds."
    )


def _cold_start(
    spec: InferenceServiceSpec, said: Said, measured: Measured | None
) -> tuple[float, str]:
    if said.cold_start_s is not None:
        return said.cold_start_s, f"Cold start: {said.cold_start_s:g} s, as given."
    seen = () if measured is None else measured.memory.cold_starts_s
    own_s = spec.engine.device.load_seconds
    is_same = measured is None or measured.spec.engine.device.load_seconds == own_s
    if measured is not None and seen and is_same:
        slowest_s = max(seen)
        of = "the last one" if len(seen) == 1 else f"the slowest of the last {len(seen)}"
        return slowest_s, f"Cold start: {slowest_s:.0f} s, {of} measured on {measured.source}."
    assumed_s = policy_from_spec(spec).cold_start_prior_s
    if own_s is not None:
        return assumed_s, f"Cold start: {assumed_s:g} s, from engine.device.loadSeconds."
    return assumed_s, (
        f"Cold start: {assumed_s:g} s, which the autopilot assumes until it has measured one; "
        "--cold-start says how long it takes."
    )
