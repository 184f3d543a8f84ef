"""How pods are replaced when the template changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline_operator.api.choice import DeviceType, RolloutStrategy
from paceline_operator.api.v1alpha1 import InferenceServiceSpec
from paceline_operator.domain.pods import Problem, one_line

NOT_MADE = "FailedCreate"

SURGE: dict[str, Any] = {
    "type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
}  # fmt: skip
REPLACE: dict[str, Any] = {
    "type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
}  # fmt: skip


def resolve(
    spec: InferenceServiceSpec, *, surge_blocked: bool, current: RolloutStrategy | None
) -> RolloutStrategy:
    """Resolve `Auto`: surge, unless the scheduler has no room for one more pod.

    Args:
        spec: The parsed spec.
        surge_blocked: A pod of the new template is unschedulable during a rollout.
        current: What was resolved before; a switch to Replace holds while the fleet lives,
            because a cluster without room seldom gains it between two rollouts.
    """
    if spec.rollout.strategy is not RolloutStrategy.AUTO:
        return spec.rollout.strategy
    if surge_blocked or current is RolloutStrategy.REPLACE:
        return RolloutStrategy.REPLACE
    return RolloutStrategy.REPLACE if _holds_a_gpu(spec) else RolloutStrategy.SURGE


def kept(
    spec: InferenceServiceSpec, *, surge_blocked: bool, current: RolloutStrategy | None
) -> RolloutStrategy | None:
    """What to remember of `Auto`: what the cluster taught, and nothing that the spec says.

    Args:
        spec: The parsed spec.
        surge_blocked: As for `resolve`.
        current: As for `resolve`.
    """
    if spec.rollout.strategy is not RolloutStrategy.AUTO or _holds_a_gpu(spec):
        return None
    return resolve(spec, surge_blocked=surge_blocked, current=current)


def _holds_a_gpu(spec: InferenceServiceSpec) -> bool:
    return spec.engine.device.type is DeviceType.CUDA


def deployment_strategy(strategy: RolloutStrategy) -> dict[str, Any]:
    """The Deployment's own form of a resolved strategy."""
    return REPLACE if strategy is RolloutStrategy.REPLACE else SURGE


def in_progress(live: Mapping[str, Any] | None) -> bool:
    """Whether pods of another template are being replaced, as the Deployment tells.

    A Deployment nobody has looked at yet counts as rolling out.
    """
    if live is None:
        return True
    status = live.get("status") or {}
    if int(status.get("observedGeneration", 0)) < int(live["metadata"].get("generation", 1)):
        return True
    return is_replacing(live)


def is_replacing(live: Mapping[str, Any] | None) -> bool:
    """Whether there are pods of another template, by what its controller has seen last.

    Other than `in_progress` it says nothing of what was just written, such as fewer replicas.
    """
    status = (live or {}).get("status") or {}
    return int(status.get("replicas", 0)) > int(status.get("updatedReplicas", 0))


def is_stuck(live: Mapping[str, Any] | None) -> bool:
    """Whether the Deployment has given up waiting for progress."""
    conditions = ((live or {}).get("status") or {}).get("conditions") or ()
    return any(each.get("reason") == "ProgressDeadlineExceeded" for each in conditions)


def is_complete(live: Mapping[str, Any] | None) -> bool:
    """Whether the last rollout came to its end: from then on a Deployment has no deadline."""
    if live is None or in_progress(live):
        return False
    conditions = (live.get("status") or {}).get("conditions") or ()
    return any(each.get("reason") == "NewReplicaSetAvailable" for each in conditions)


def not_made(live: Mapping[str, Any] | None) -> Problem | None:
    """Why the API server takes none of its pods: a quota, a policy, a webhook; None where it does.

    Such a pod does not exist, and can tell nothing itself. One that cannot be deleted has the same
    condition of the Deployment for another reason.
    """
    for each in ((live or {}).get("status") or {}).get("conditions") or ():
        told = each.get("type"), each.get("status"), each.get("reason")
        if told == ("ReplicaFailure", "True", NOT_MADE):
            return Problem(NOT_MADE, one_line(str(each.get("message") or "no reason is given")))
    return None


def is_available(live: Mapping[str, Any] | None) -> bool:
    """Whether at least one pod of a Deployment serves."""
    return int(((live or {}).get("status") or {}).get("readyReplicas", 0)) > 0
