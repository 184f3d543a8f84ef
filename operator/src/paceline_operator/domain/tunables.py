"""The live values of a fleet: the body of a tunables PUT and of the start-up ConfigMap."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paceline_operator.api.v1alpha1 import InferenceServiceSpec, Slo
from paceline_operator.autopilot.fleet import PodTunables
from paceline_operator.autopilot.fleet import Tunables as Knobs
from paceline_operator.autopilot.policy import initial_tunables, policy_from_spec
from paceline_operator.domain.difference import digest

_BATCHED = "maxNumBatchedTokens"
_RUNNING = "maxNumRunningSeqs"


@dataclass(frozen=True, slots=True)
class Agreed:
    """Live values under one revision, with the objectives engines count against."""

    revision: int
    knobs: Knobs
    slos: tuple[Slo, ...] = ()


def body(agreed: Agreed) -> dict[str, Any]:
    """Wire form of a PUT."""
    return {
        "revision": agreed.revision,
        _BATCHED: agreed.knobs.max_num_batched_tokens,
        _RUNNING: agreed.knobs.max_num_running_seqs,
        "slos": [_slo(slo) for slo in agreed.slos],
    }


def _slo(slo: Slo) -> dict[str, Any]:
    return {
        "name": slo.name,
        "tier": slo.tier.value,
        "metric": slo.metric.value,
        "percentile": slo.percentile,
        "targetMs": slo.target_ms,
    }


def text(agreed: Agreed) -> str:
    """The ConfigMap's value, byte for byte the same for the same input."""
    return json.dumps(body(agreed), sort_keys=True)


def parse(content: str | None) -> Agreed | None:
    """Read a ConfigMap's value back; None where it is missing or not ours."""
    try:
        found = json.loads(content or "")
        return Agreed(
            int(found["revision"]),
            Knobs(
                max_num_batched_tokens=int(found[_BATCHED]),
                max_num_running_seqs=int(found[_RUNNING]),
            ),
            tuple(Slo.model_validate(each) for each in found.get("slos", ())),
        )
    except (ValueError, KeyError, TypeError):
        return None


def objectives_digest(slos: tuple[Slo, ...]) -> str:
    """Mark of what engines count: the same for objectives that are the same to them."""
    return digest([_slo(each) for each in slos])


def initial(spec: InferenceServiceSpec) -> Agreed:
    """What a new fleet starts with, before anything was agreed."""
    return Agreed(0, initial_tunables(policy_from_spec(spec)), spec.slos)


def bounded(knobs: Knobs, spec: InferenceServiceSpec) -> Knobs:
    """Agreed values brought back inside ceilings that the spec has lowered since."""
    policy = policy_from_spec(spec)
    return Knobs(
        max_num_batched_tokens=min(knobs.max_num_batched_tokens, policy.batch_max),
        max_num_running_seqs=min(knobs.max_num_running_seqs, policy.max_num_seqs),
    )


def read_report(answer: Mapping[str, Any]) -> PodTunables:
    """What an engine reports of its knobs.

    Raises:
        KeyError, TypeError, ValueError: The answer is not of the agreed form.
    """
    effective, ceiling = answer["effective"], answer["ceiling"]
    return PodTunables(
        effective=int(effective[_BATCHED]),
        floor=int(answer["floor"][_BATCHED]),
        ceiling=int(ceiling[_BATCHED]),
        step=int(answer["step"][_BATCHED]),
        running_seqs=int(effective[_RUNNING]),
        running_ceiling=int(ceiling[_RUNNING]),
        revision=int(answer["revision"]),
    )
