"""Autonomy within what the installation allows."""

from __future__ import annotations

from paceline_operator.api.choice import Mode
from paceline_operator.api.v1alpha1 import InferenceServiceSpec
from paceline_operator.autopilot.vocabulary.decision import Knob

_ORDER = (Mode.OFF, Mode.RECOMMEND, Mode.AUTO)


def capped(spec: InferenceServiceSpec, most: Mode) -> InferenceServiceSpec:
    """The spec with both modes lowered to at most `most`, defaults resolved."""
    tuning = spec.tuning.model_copy(update={"mode": _lower(spec.tuning.mode, most)})
    mode = _lower(spec.scaling.effective_mode, most)
    scaling = spec.scaling.model_copy(update={"mode": mode})
    return spec.model_copy(update={"tuning": tuning, "scaling": scaling})


def lowered(spec: InferenceServiceSpec, most: Mode) -> frozenset[Knob]:
    """Knobs that get less autonomy here than the spec asks for, the replica knob among them."""
    given = capped(spec, most)
    live = given.tuning.mode is not spec.tuning.mode
    replicas = given.scaling.mode is not spec.scaling.effective_mode
    return frozenset([Knob.BUDGET] * live + [Knob.REPLICAS] * replicas)


def braked(spec: InferenceServiceSpec, most: Mode) -> bool:
    """Whether replicas that an autopilot would move here are left where they are."""
    return spec.scaling.effective_mode is Mode.AUTO and most is not Mode.AUTO


def _lower(mode: Mode, most: Mode) -> Mode:
    return min(mode, most, key=_ORDER.index)
