"""Short forms for policies, fleets and windows in tests of the control law."""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Any

from paceline_operator.api.v1alpha1 import Mode, SloMetric
from paceline_operator.autopilot.vocabulary.fleet import (
    DataClass,
    FleetObservation,
    PodObservation,
    PodTunables,
    Tunables,
)
from paceline_operator.autopilot.vocabulary.policy import Objective, Policy
from paceline_operator.autopilot.vocabulary.window import TERMS, Moments, Window

TTFT, ITL = "first-token", "cadence"


def policy(ttft_ms: int | None = 1000, itl_ms: int | None = 100, **more: Any) -> Policy:
    """With one budget for all steps, about which most rules are."""
    objectives = []
    if ttft_ms is not None:
        objectives.append(Objective(name=TTFT, metric=SloMetric.TTFT, target_ms=ttft_ms))
    if itl_ms is not None:
        objectives.append(Objective(name=ITL, metric=SloMetric.ITL, target_ms=itl_ms))
    return Policy(objectives=tuple(objectives), **{"is_paced": False, **more})


def auto(ttft_ms: int | None = 1000, itl_ms: int | None = 100, **more: Any) -> Policy:
    given: dict[str, Any] = {
        "scaling_mode": Mode.AUTO,
        "min_replicas": 1,
        "max_replicas": 8,
        "cold_start_prior_s": 15.0,
        "down_window_s": 60.0,
        **more,
    }
    return policy(ttft_ms, itl_ms, **given)


def pod(number: int = 1, **more: Any) -> PodObservation:
    given: dict[str, Any] = {
        "name": f"pod-{number}",
        "uid": f"uid-{number}",
        "ready": True,
        "ready_since_s": 0.0,
        "data": DataClass.FRESH,
        "tunables": PodTunables(
            effective=512, floor=80, ceiling=2048, step=16, running_seqs=64, running_ceiling=64
        ),
        **more,
    }
    return PodObservation(**given)


def fleet(pods: int | tuple[PodObservation, ...] = 2, **more: Any) -> FleetObservation:
    made = tuple(pod(n + 1) for n in range(pods)) if isinstance(pods, int) else pods
    given: dict[str, Any] = {
        "now_s": 1000.0,
        "pods": made,
        "desired_replicas": len(made),
        "desired_tunables": Tunables(max_num_batched_tokens=512, max_num_running_seqs=64),
        **more,
    }
    return FleetObservation(**given)


def moments(*steps: tuple[float, float, float, float, float]) -> Moments:
    """Of steps given as (prefill, rows, kv, chunk x context, seconds)."""
    sums = [0.0] * len(TERMS)
    for step in steps:
        for place, (a, b) in enumerate(combinations_with_replacement((1.0, *step), 2)):
            sums[place] += a * b
    return Moments(tuple(sums))


def window(start_s: float = 995.0, end_s: float = 1000.0, **more: Any) -> Window:
    return Window(start_s=start_s, end_s=end_s, pod_seconds=end_s - start_s, **more)
