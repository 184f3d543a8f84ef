"""Requests and limits of an engine container, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from paceline_operator.api.choice import DeviceType
from paceline_operator.api.v1alpha1 import EngineSpec
from paceline_operator.domain import quantity
from paceline_operator.domain.names import ENGINE

GPU = "nvidia.com/gpu"
_DEFAULTS: dict[DeviceType, dict[str, dict[str, str]]] = {
    DeviceType.SIMULATED: {"requests": {"cpu": "50m", "memory": "128Mi"}},
    DeviceType.CPU: {"requests": {"cpu": "1", "memory": "1Gi"}},
    DeviceType.AUTO: {"requests": {"cpu": "1", "memory": "1Gi"}},
    DeviceType.CUDA: {"requests": {"cpu": "1", "memory": "4Gi"}},
}


def resources(engine: EngineSpec, wanted: Mapping[str, Any] | None) -> dict[str, Any]:
    """Container resources: as wanted, else by device; never a CPU limit of ours.

    A CPU quota stalls steps for up to 100 ms, so a limit is only what the user writes.
    """
    chosen = {
        part: dict(amounts) for part, amounts in (wanted or _DEFAULTS[engine.device.type]).items()
    }
    if engine.device.type is DeviceType.CUDA:
        limits = chosen.setdefault("limits", {})
        limits.setdefault(GPU, str(engine.tensor_parallel_size))
    return chosen


def threads(chosen: Mapping[str, Any]) -> int:
    """Compute threads: whole CPUs requested, at least one."""
    amounts = {**chosen.get("limits", {}), **chosen.get("requests", {})}
    return max(1, quantity.whole(amounts.get("cpu", 1)))


def granted(pod: Mapping[str, Any]) -> str:
    """What an engine pod has of its node, in a form that differs where that does.

    The kubelet's word counts, since a pod may be resized in place; else what was asked for.
    """
    status, spec = pod.get("status") or {}, pod.get("spec") or {}
    found = _resources_of(status.get("containerStatuses")) or _resources_of(spec.get("containers"))
    return ",".join(
        f"{part}.{name}={_plain(amount)}"
        for part, amounts in sorted(found.items())
        if part in ("limits", "requests")
        for name, amount in sorted((amounts or {}).items())
    )


def _plain(amount: Any) -> str:
    number = quantity.parse(amount)
    return str(amount) if number is None else f"{number.normalize():f}"


def _resources_of(containers: Iterable[Mapping[str, Any]] | None) -> Mapping[str, Any]:
    engines = (each for each in containers or () if each.get("name") == ENGINE)
    found: Mapping[str, Any] = next(engines, {}).get("resources") or {}
    return found
