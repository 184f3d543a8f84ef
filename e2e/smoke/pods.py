"""Containers as the API server describes them, and which of them have been started anew. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Container:
    """One container of one pod.

    Attributes:
        pod_uid: Its pod.
        name: Its name in the pod.
        restarts: How often the kubelet has started it again.
        ready: Whether it takes requests.
    """

    pod_uid: str
    name: str
    restarts: int
    ready: bool


def containers(pods: Sequence[Mapping[str, Any]]) -> tuple[Container, ...]:
    """All containers that have a status."""
    return tuple(
        Container(
            pod_uid=pod["metadata"]["uid"],
            name=status["name"],
            restarts=int(status["restartCount"]),
            ready=bool(status.get("ready")),
        )
        for pod in pods
        for status in pod["status"].get("containerStatuses", [])
    )


def has_restarted(before: Sequence[Container], now: Sequence[Container]) -> bool:
    """Whether a container of `before` is gone, or has been started again since."""
    latest = {(c.pod_uid, c.name): c.restarts for c in now}
    return any(latest.get((c.pod_uid, c.name), c.restarts + 1) > c.restarts for c in before)


def ready_anew(before: Sequence[Container], now: Sequence[Container]) -> bool:
    """Whether a container is ready that was started after `before` was looked at."""
    known = {(c.pod_uid, c.name): c.restarts for c in before}
    return any(c.ready and c.restarts > known.get((c.pod_uid, c.name), -1) for c in now)
