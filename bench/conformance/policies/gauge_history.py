"""What each pod's gauges read lately, for rules that look at peaks or means over time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from bench.conformance.policies.gauge import reporting
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation, PodObservation


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """Largest readings of one pod in the window.

    Attributes:
        pod: The pod as last seen.
        waiting: Waiting requests.
        kv_usage: Share of KV blocks in use.
    """

    pod: PodObservation
    waiting: float
    kv_usage: float


class GaugeHistory:
    """Readings of the last `window_s`, by pod UID.

    Args:
        window_s: How far back `max_over_time` looks.
    """

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._rounds: deque[tuple[float, dict[str, PodObservation]]] = deque()

    def note(self, fleet: FleetObservation, now_s: float) -> None:
        """Adds what is read now and forgets what is older than the window."""
        self._rounds.append((now_s, {pod.uid: pod for pod in reporting(fleet)}))
        while self._rounds[0][0] <= now_s - self._window_s:
            self._rounds.popleft()

    def peaks(self, fleet: FleetObservation) -> tuple[Peak, ...]:
        """Of the serving pods that report now."""
        return tuple(
            Peak(
                pod=pod,
                waiting=max(float(seen.waiting) for seen in self._of(pod.uid)),
                kv_usage=max(seen.kv_usage for seen in self._of(pod.uid)),
            )
            for pod in reporting(fleet)
            if pod.serving
        )

    def _of(self, uid: str) -> list[PodObservation]:
        return [pods[uid] for _, pods in self._rounds if uid in pods]
