"""The live values of a fleet: the body of a tunables PUT and of the start-up ConfigMap."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from paceline_operator.api.v1alpha1 import InferenceServiceSpec, Mode, Slo
from paceline_operator.autopilot.vocabulary.fleet import PodTunables, Trial
from paceline_operator.autopilot.vocabulary.fleet import Tunables as Knobs
from paceline_operator.autopilot.vocabulary.policy import (
    budget_floor,
    initial_tunables,
    policy_from_spec,
)
from paceline_operator.domain.difference import digest

MAX_REVISION = 2**53
"""Beyond it not every reader of JSON can count on; no fleet gets there one by one."""
_BATCHED = "maxNumBatchedTokens"
_RUNNING = "maxNumRunningSeqs"
_TARGET = "stepTimeTargetMs"


@dataclass(frozen=True, slots=True)
class Agreed:
    """Live values under one revision, with the objectives engines count against."""

    revision: int
    knobs: Knobs
    slos: tuple[Slo, ...] = ()
    trial: Trial | None = None

    def of_pod(self, uid: str) -> Agreed:
        """As one pod gets it: with the budget that it tries, where it is the one that tries."""
        if self.trial is None or self.trial.uid != uid:
            return self
        return replace(self, knobs=replace(self.knobs, max_num_batched_tokens=self.trial.budget))


def body(agreed: Agreed) -> dict[str, Any]:
    """Wire form of a PUT; engines take a step-time target that is left out for none."""
    target_ms = agreed.knobs.step_time_target_ms
    paced = {} if target_ms is None else {_TARGET: target_ms}
    return {
        "revision": agreed.revision,
        _BATCHED: agreed.knobs.max_num_batched_tokens,
        _RUNNING: agreed.knobs.max_num_running_seqs,
        **paced,
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


def can_follow(revision: int) -> bool:
    """Whether a fleet may go on from a revision that one of its engines reports."""
    return revision + 1 <= MAX_REVISION


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
                step_time_target_ms=_target_ms(found),
            ),
            tuple(Slo.model_validate(each) for each in found.get("slos", ())),
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def runs_with(report: PodTunables, agreed: Agreed) -> bool:
    """Whether an engine says that it runs with the agreed values, as far as it can.

    The revision alone proves nothing: an engine may acknowledge a change and ignore it.
    """
    knobs = agreed.knobs
    budget = min(report.ceiling, max(report.floor, knobs.max_num_batched_tokens))
    return (
        report.revision == agreed.revision
        and abs(report.effective - budget) < report.step
        and report.running_seqs == min(report.running_ceiling, knobs.max_num_running_seqs)
        and report.step_time_target_ms == knobs.step_time_target_ms
    )


def objectives_digest(slos: tuple[Slo, ...]) -> str:
    """Mark of what engines count: the same for objectives that are the same to them."""
    return digest([_slo(each) for each in slos])


def initial(spec: InferenceServiceSpec) -> Agreed:
    """What a new fleet starts with, before anything was agreed."""
    return Agreed(0, initial_tunables(policy_from_spec(spec)), spec.slos)


def fitted(
    knobs: Knobs, spec: InferenceServiceSpec, *, squeezed: bool, seqs_ceiling: int | None = None
) -> Knobs:
    """Agreed values in terms of what the spec allows now, lowered or raised since.

    While no engine has said what it takes, the running cap is only ever lowered: one that went up
    then would come down again with the first report. A spec that is raised meanwhile has its
    effect with that report.

    Args:
        knobs: Values agreed so far.
        spec: What the user asks for.
        squeezed: Whether the running cap is below its ceiling on purpose; else it is the ceiling.
        seqs_ceiling: Most running sequences that every engine takes, None while none has said.
    """
    policy = policy_from_spec(spec)
    if policy.tuning_mode is Mode.OFF:
        return initial_tunables(policy)
    seqs = min(policy.max_num_seqs, seqs_ceiling or knobs.max_num_running_seqs)
    if squeezed:
        seqs = min(seqs, knobs.max_num_running_seqs)
    floor = budget_floor(seqs, policy.budget_step)
    return Knobs(
        max_num_batched_tokens=min(policy.batch_max, max(knobs.max_num_batched_tokens, floor)),
        max_num_running_seqs=seqs,
        step_time_target_ms=knobs.step_time_target_ms,
    )


def read_report(answer: Mapping[str, Any]) -> PodTunables:
    """What an engine reports of its knobs.

    Raises:
        KeyError, TypeError, ValueError, OverflowError: The answer is not of the agreed form.
    """
    effective, ceiling = answer["effective"], answer["ceiling"]
    return PodTunables(
        effective=int(effective[_BATCHED]),
        floor=int(answer["floor"][_BATCHED]),
        ceiling=int(ceiling[_BATCHED]),
        step=int(answer["step"][_BATCHED]),
        running_seqs=int(effective[_RUNNING]),
        running_ceiling=int(ceiling[_RUNNING]),
        step_time_target_ms=_target_ms(effective),
        revision=int(answer["revision"]),
        requested=int((answer.get("requested") or {}).get(_BATCHED) or 0),
    )


def _target_ms(knobs: Mapping[str, Any]) -> float | None:
    found = knobs.get(_TARGET)
    if found is None:
        return None
    target_ms = float(found)
    if not 0 < target_ms < inf:
        raise ValueError(f"{_TARGET} is {target_ms}")
    return target_ms
