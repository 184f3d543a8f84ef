"""The live values of a fleet: the body of a tunables PUT and of the start-up ConfigMap."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from paceline_operator.api.v1alpha1 import InferenceServiceSpec, Slo


@dataclass(frozen=True, slots=True)
class Tunables:
    """Agreed live values; None leaves the engine's own start value in force."""

    revision: int
    batched_tokens: int | None = None
    running_seqs: int | None = None


def slo_targets(slos: tuple[Slo, ...]) -> list[dict[str, Any]]:
    """Objectives in the form engines count them."""
    return [
        {
            "name": slo.name,
            "tier": slo.tier.value,
            "metric": slo.metric.value,
            "percentile": slo.percentile,
            "targetMs": slo.target_ms,
        }
        for slo in slos
    ]


def body(tunables: Tunables, slos: tuple[Slo, ...]) -> dict[str, Any]:
    """Wire form; absent values are left out."""
    values = {
        "revision": tunables.revision,
        "maxNumBatchedTokens": tunables.batched_tokens,
        "maxNumRunningSeqs": tunables.running_seqs,
        "slos": slo_targets(slos),
    }
    return {key: value for key, value in values.items() if value is not None}


def text(tunables: Tunables, slos: tuple[Slo, ...]) -> str:
    """The ConfigMap's value, byte for byte the same for the same input."""
    return json.dumps(body(tunables, slos), sort_keys=True)


def initial(spec: InferenceServiceSpec) -> Tunables:
    """What a new fleet starts with, before anything was agreed."""
    return Tunables(revision=0, batched_tokens=spec.engine.batch_tokens.initial)
