"""What the control law must not forget between ticks or over an operator restart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter

from paceline_operator.autopilot.vocabulary.fleet import Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class FitMemory:
    """Evidence of one regression, in scaled units.

    Attributes:
        information: Upper triangle of the sum of regressor cross products, row by row,
            forgotten slowly.
        target: Sum of regressor x step time in ms.
        square: Sum of squared step times, ms^2.
        steps: Steps behind it, forgotten alike.
        rejected: Slices refused in a row by the innovation gate.
    """

    information: tuple[float, ...] = ()
    target: tuple[float, ...] = ()
    square: float = 0.0
    steps: float = 0.0
    rejected: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPace:
    """Step times of one pod beside what the pool's model predicts of the same steps.

    Attributes:
        uid: UID of the pod.
        observed_s: Time of its steps, forgotten with a half-life.
        predicted_s: What the model says of them, forgotten alike.
        steps: How many, forgotten alike.
        slower: Its share of observed in predicted time, over that of the pool.
        slow_since_s: Since when it has been slow, None while it is not.
        sick: Whether that has lasted: then the pool is no longer judged by it.
        judged_at_s: When its own steps last said whether it is slow.
    """

    uid: str
    observed_s: float = 0.0
    predicted_s: float = 0.0
    steps: float = 0.0
    slower: float = 1.0
    slow_since_s: float | None = None
    sick: bool = False
    judged_at_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """Replicas wanted at some time."""

    time_s: float
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What requests looked like when enough of them were seen; as in `Workload`.

    Attributes:
        seen_at_s: When that was.
        prompt_mean: Tokens of a prompt.
        prompt_p50: Median of it.
        prompt_p95: Its 95th percentile.
        prompt_p99: Its 99th percentile, 0 where nobody knows.
        prompt_cv2: Variance over squared mean.
        output_mean: Tokens of an answer.
        hit_rate: Share of prompt tokens found in the prefix cache.
    """

    seen_at_s: float
    prompt_mean: float
    prompt_p50: float
    prompt_p95: float
    prompt_cv2: float
    output_mean: float
    hit_rate: float
    prompt_p99: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HitShare:
    """Share of prompt tokens that a fleet of some size found in its prefix caches.

    Attributes:
        replicas: Its size.
        share: What it found.
        at_s: When it was last seen.
    """

    replicas: int
    share: float
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Regret:
    """A scale-in that had to be taken back though the load was about the same.

    Attributes:
        at_s: When it was taken back.
        replicas: What was needed after all.
        rps: Load that was expected when fewer seemed to do.
    """

    at_s: float
    replicas: int
    rps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """A load that came back soon after replicas had gone.

    Attributes:
        at_s: When.
        window_s: Down window that would have kept them.
    """

    at_s: float
    window_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginGrowth:
    """What a larger margin has brought.

    Attributes:
        start: Margin when it began to grow.
        missed: Share of the gaps that was missed then, beyond what may be; 0 while none is.
        failed_at_s: When it was given back, as it had brought nothing.
    """

    start: float = 0.0
    missed: float = 0.0
    failed_at_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bursts:
    """Surges of the load: the one that is, and how long those lasted that were none for replicas.

    Attributes:
        began_at_s: When the last one began.
        since_s: Since when more replicas are asked for by a surge, 0 while none are.
        before: Replicas that sufficed before it.
        lasted_s: How long a surge lasted that was over before a replica ordered for it could
            have served, 0 while none is known.
        lasted_at_s: When that was over.
    """

    began_at_s: float = 0.0
    since_s: float = 0.0
    before: int = 0
    lasted_s: float = 0.0
    lasted_at_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """A move whose effect is still to be measured.

    Attributes:
        knob: What was moved, as decisions name it.
        moved_at_s: When.
        after: Value it was moved to.
        due_s: When it is to be judged.
        law_ms: Coefficients of steps with prompt tokens as believed then, in the order of the
            step-time law, milliseconds.
        uid: The only pod that was moved, empty where all were.
    """

    knob: str
    moved_at_s: float
    after: int
    due_s: float
    law_ms: tuple[float, ...] = ()
    uid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misses:
    """Samples of one objective in the last six hours, in buckets of five minutes.

    Attributes:
        objective: Its `slo_key`.
        first: Number of the first bucket, counted from the epoch.
        missed: Samples beyond the target in each bucket.
        total: All samples in each.
    """

    objective: str
    first: int
    missed: tuple[float, ...] = ()
    total: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Minute:
    """What was offered in a minute that the slices no longer tell of, or nearly so.

    Attributes:
        start_s: Its beginning.
        end_s: Its end.
        tokens: Prompt tokens offered.
        requests: Requests they belong to.
    """

    start_s: float
    end_s: float
    tokens: float
    requests: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """State of both loops; plain numbers only, so that it fits into a status.

    Attributes:
        decode_fit: Evidence from decode-only steps.
        prefill_fit: Evidence from steps that carry prompt tokens.
        template_hash: Pod template that the evidence is about.
        resources: What the pods that it is about have of their nodes.
        paces: Step times of each pod beside the model's.
        step_factor: Observed over predicted step time, with a half-life of two minutes.
        clipped_since_s: Since when that has been at a limit, None while it is not.
        mismatched_at_s: When the model was last given up for that.
        learned_until_s: End of the last slice that was learned from.
        proven_budget: Largest budget at which full-budget steps were seen.
        proven_at_s: When it was last seen.
        acknowledged_budget: Smallest budget that a serving engine reports, 0 while one does not.
        acknowledged_at_s: Since when.
        margin: Share of the ITL target the model keeps free; trimmed by feedback.
        margin_at_s: When it was last integrated.
        margin_growth: What its growth has brought.
        capacity_factor: Correction of the predicted capacity by TTFT feedback.
        capacity_factor_at_s: When it was last changed.
        knob_at_s: Last run of the knob loop.
        replica_at_s: Last run of the replica loop.
        lowered_at_s: Last decrease of a live knob.
        raised_at_s: Last increase of a live knob.
        refused_budget: Budget last lowered because it breaks the ITL target, 0 for none.
        refused_at_s: When that was.
        trial: Budget that one pod tries, None for none.
        trial_at_s: Since when.
        probed_at_s: When a pod last had another budget only to learn from it.
        failed_budget: Budget whose full steps took too long on the pod that tried it, 0 for none.
        failed_at_s: When that was.
        failed_rows: Decoding sequences of a step then.
        blind_since_s: Since when the live knobs cannot be judged, None while they can.
        squeezed_seqs: Running cap to go back to while a decode-bound squeeze lasts.
        squeezed_replicas: Serving replicas when it was squeezed.
        scaled_out_at_s: Last scale-out.
        scaled_out_from: Replicas before the scale-outs of the last 30 s.
        scaled_in_at_s: Last scale-in.
        scaled_in_from: Replicas before it.
        scaled_in_rps: Load expected then.
        regret: The last scale-in that was taken back, None where none was.
        returned: The last load that came back soon after a scale-in, None where none did.
        recommended: Peaks of the recommendations in the down window, newest last.
        recommending_since_s: Beginning of the unbroken record of recommendations.
        cold_starts_s: Last measured cold starts.
        starting: UID -> creation time of pods that were seen before they were ever ready.
        served: UIDs of young pods that were ready once.
        shape: What requests looked like; None until enough were seen.
        hit_shares: What fleets of several sizes found in their prefix caches.
        bursts: Surges of the load, and how soon they were over.
        bound: What ended a replica's capacity when it was last reckoned, empty for nothing.
        misses: Of each objective, for its error budget.
        minutes: What was offered before the slices that are kept, a minute each.
        manual_replicas: Last `spec.replicas` seen.
        manual_since_s: When it was first seen.
        capped_since_s: Since when the installation allows the replica loop less than the spec
            does, None while it does not.
        awaited: Moves whose effect is still to be measured, one a knob at most.
    """

    decode_fit: FitMemory = FitMemory()
    prefill_fit: FitMemory = FitMemory()
    template_hash: str = ""
    resources: str = ""
    paces: tuple[PodPace, ...] = ()
    step_factor: float = 1.0
    clipped_since_s: float | None = None
    mismatched_at_s: float = 0.0
    learned_until_s: float = 0.0
    proven_budget: int = 0
    proven_at_s: float = 0.0
    acknowledged_budget: int = 0
    acknowledged_at_s: float = 0.0
    margin: float = 0.10
    margin_at_s: float = 0.0
    margin_growth: MarginGrowth = MarginGrowth()
    capacity_factor: float = 1.0
    capacity_factor_at_s: float = 0.0
    knob_at_s: float = 0.0
    replica_at_s: float = 0.0
    lowered_at_s: float = 0.0
    raised_at_s: float = 0.0
    refused_budget: int = 0
    refused_at_s: float = 0.0
    trial: Trial | None = None
    trial_at_s: float = 0.0
    probed_at_s: float = 0.0
    failed_budget: int = 0
    failed_at_s: float = 0.0
    failed_rows: float = 0.0
    blind_since_s: float | None = None
    squeezed_seqs: int | None = None
    squeezed_replicas: int = 0
    scaled_out_at_s: float = 0.0
    scaled_out_from: int = 0
    scaled_in_at_s: float = 0.0
    scaled_in_from: int = 0
    scaled_in_rps: float = 0.0
    regret: Regret | None = None
    returned: Return | None = None
    recommended: tuple[Recommendation, ...] = ()
    recommending_since_s: float | None = None
    cold_starts_s: tuple[float, ...] = ()
    starting: tuple[tuple[str, float], ...] = ()
    served: tuple[str, ...] = ()
    shape: Shape | None = None
    hit_shares: tuple[HitShare, ...] = ()
    bursts: Bursts = Bursts()
    bound: str = ""
    misses: tuple[Misses, ...] = ()
    minutes: tuple[Minute, ...] = ()
    manual_replicas: int | None = None
    manual_since_s: float = 0.0
    capped_since_s: float | None = None
    awaited: tuple[Awaited, ...] = ()


_T = TypeVar("_T")

_ADAPTER = TypeAdapter(Memory)
_TIMES = ("at_s", "time_s", "since_s", "until_s")
_NAMES_A_DECISION = "moved_at_s"


def not_after(memory: Memory, now_s: float) -> Memory:
    """The memory without a time ahead of now, as a clock that was ahead has left it.

    Minutes ahead go: they would stand before all that is measured until then.
    """
    minutes = tuple(each for each in memory.minutes if each.end_s <= now_s)
    if len(minutes) < len(memory.minutes):
        memory = replace(memory, minutes=minutes)
    return _held(memory, now_s)


def _held(value: _T, now_s: float) -> _T:
    """With no time in it ahead of now; the same object where there is none."""
    if isinstance(value, tuple):
        parts = [(each, _held(each, now_s)) for each in value]
        is_same = all(before is after for before, after in parts)
        return value if is_same else cast("_T", tuple(after for _, after in parts))
    if not is_dataclass(value) or isinstance(value, type):
        return value
    held = {f.name: _held_field(f.name, getattr(value, f.name), now_s) for f in fields(value)}
    changes = {name: each for name, each in held.items() if each is not getattr(value, name)}
    return replace(value, **changes) if changes else value


def _held_field(name: str, value: Any, now_s: float) -> Any:
    is_time = name.endswith(_TIMES) and name != _NAMES_A_DECISION
    return min(value, now_s) if is_time and value is not None else _held(value, now_s)


def dump_memory(memory: Memory) -> dict[str, Any]:
    """The memory as JSON values, for the status."""
    dumped: dict[str, Any] = _ADAPTER.dump_python(memory, mode="json", exclude_defaults=True)
    return dumped


def load_memory(stored: Mapping[str, Any] | None) -> Memory:
    """The memory from a status; what cannot be read counts as never learned."""
    if not stored:
        return Memory()
    try:
        found = _ADAPTER.validate_python(dict(stored))
        json.dumps(dump_memory(found), allow_nan=False)  # nothing that is no number spreads
    except ValueError:
        return Memory()
    return found
