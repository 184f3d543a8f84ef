"""Replicas a fleet starts with, before any decision."""

from __future__ import annotations

from paceline_operator.api.choice import Mode
from paceline_operator.api.v1alpha1 import InferenceServiceSpec


def initial(spec: InferenceServiceSpec) -> int:
    """`spec.replicas`, inside the limits of `Auto`."""
    scaling = spec.scaling
    if scaling.effective_mode is not Mode.AUTO:
        return spec.replicas
    wanted = max(spec.replicas, scaling.min_replicas)
    return wanted if scaling.max_replicas is None else min(wanted, scaling.max_replicas)
