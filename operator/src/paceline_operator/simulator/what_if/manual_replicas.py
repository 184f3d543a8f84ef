"""`spec.replicas` as it would be after an apply: kept where left out, no floor past its time."""

from __future__ import annotations

from paceline_operator.api.choice import Mode
from paceline_operator.api.v1alpha1 import InferenceServiceSpec
from paceline_operator.autopilot.vocabulary.memory import Memory

NO_FLOOR = 1
"""What is stored where nobody says anything; no minimum is lower."""
Said = tuple[InferenceServiceSpec, tuple[str, ...]]


def kept(new: InferenceServiceSpec, live: InferenceServiceSpec) -> Said:
    """The new spec with the replicas of the live object where it leaves them out, and a note.

    Args:
        new: As its manifest says.
        live: Of the object that it would be applied to.
    """
    if "replicas" in new.model_fields_set or new.replicas == live.replicas:
        return new, ()
    note = (
        f"spec.replicas: left out, so the live object's {live.replicas} stays and is played (an "
        "apply takes it back to 1 where the manifest applied before named it)."
    )
    return new.model_copy(update={"replicas": live.replicas}), (note,)


def without_past_floor(spec: InferenceServiceSpec, memory: Memory, now_s: float) -> Said:
    """The spec without a manual floor whose time is over, and a note.

    Args:
        spec: That is played.
        memory: What the live fleet's autopilot remembers.
        now_s: Since the epoch.
    """
    ends_s = memory.manual_since_s + spec.scaling.override_seconds
    is_over = spec.replicas == memory.manual_replicas and now_s >= ends_s
    is_told = spec.replicas > max(NO_FLOOR, spec.scaling.min_replicas)
    if spec.scaling.effective_mode is not Mode.AUTO or not is_over or not is_told:
        return spec, ()
    note = (
        f"spec.replicas: {spec.replicas} has been a floor for longer than overrideSeconds, so it "
        "is none any more."
    )
    return spec.model_copy(update={"replicas": NO_FLOOR}), (note,)
