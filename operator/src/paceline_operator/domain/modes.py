"""Autonomy within what the installation allows."""

from __future__ import annotations

from paceline_operator.api.choice import Mode
from paceline_operator.api.v1alpha1 import InferenceServiceSpec

_ORDER = (Mode.OFF, Mode.RECOMMEND, Mode.AUTO)


def capped(spec: InferenceServiceSpec, most: Mode) -> InferenceServiceSpec:
    """The spec with both modes lowered to at most `most`, defaults resolved."""
    tuning = spec.tuning.model_copy(update={"mode": _lower(spec.tuning.mode, most)})
    mode = _lower(spec.scaling.effective_mode, most)
    scaling = spec.scaling.model_copy(update={"mode": mode})
    return spec.model_copy(update={"tuning": tuning, "scaling": scaling})


def _lower(mode: Mode, most: Mode) -> Mode:
    return min(mode, most, key=_ORDER.index)
