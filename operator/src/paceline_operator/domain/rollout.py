"""How pods are replaced when the template changes."""

from __future__ import annotations

from typing import Any

from paceline_operator.api.choice import DeviceType, RolloutStrategy
from paceline_operator.api.v1alpha1 import InferenceServiceSpec

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


def _holds_a_gpu(spec: InferenceServiceSpec) -> bool:
    return spec.engine.device.type is DeviceType.CUDA


def deployment_strategy(strategy: RolloutStrategy) -> dict[str, Any]:
    """The Deployment's own form of a resolved strategy."""
    return REPLACE if strategy is RolloutStrategy.REPLACE else SURGE


def from_deployment(live: dict[str, Any] | None) -> RolloutStrategy | None:
    """Strategy a live Deployment has, or None where there is none."""
    if live is None:
        return None
    rolling = live.get("spec", {}).get("strategy", {}).get("rollingUpdate") or {}
    surge = rolling.get("maxSurge", 1) not in (0, "0", "0%")
    return RolloutStrategy.SURGE if surge else RolloutStrategy.REPLACE
