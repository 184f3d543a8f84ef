"""The Knative pod autoscaler, and the one of AIBrix that is made after it.

Rule: replicas = ceil(mean load of the stable window / target), and the same of the panic window;
once the latter asks for twice what is ready, panic begins: the larger of both, never less than
before, until a stable window has passed since it last did. No more than `max_up_rate` times what
is ready, no less than it divided by `max_down_rate`, and no less than any answer of the last
`down_delay_s`. A new autoscaler of more than one ready pod starts in panic, so that it keeps them.
Source: Knative Serving, `scaling/autoscaler.go` and `config-autoscaler` (100 concurrent requests
x 70 %, 60 s, 6 s, 2x, rates 1000 and 2); AIBrix, KPA (180 s and 60 s, rates 2 and 2, 300 s
before it scales down).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import ceil, floor

from bench.conformance.policies.cadence import AT_EVERY_SCRAPE, due_after
from bench.conformance.policies.gauge import Gauge, reporting
from bench.conformance.policies.site import ReplicaBounds
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.simulator.controller import NOTHING, Orders


@dataclass(frozen=True, slots=True, kw_only=True)
class KpaSettings:
    """`config-autoscaler`; the defaults are Knative's.

    Attributes:
        gauge: Load whose sum is averaged over time.
        target: Wanted of it for each replica.
        stable_window_s: Of the steady answer.
        panic_window_s: Of the quick one.
        panic_threshold: Panic from this multiple of the ready pods on.
        max_up_rate: Most replicas, as a multiple of the ready ones.
        max_down_rate: Fewest, as a divisor.
        down_delay_s: How long the highest answer stays.
        tick_s: Between two decisions.
    """

    gauge: Gauge = Gauge.IN_FLIGHT
    target: float = 70.0
    stable_window_s: float = 60.0
    panic_window_s: float = 6.0
    panic_threshold: float = 2.0
    max_up_rate: float = 1000.0
    max_down_rate: float = 2.0
    down_delay_s: float = 0.0
    tick_s: float = 2.0


KNATIVE = KpaSettings()
AIBRIX = KpaSettings(
    gauge=Gauge.KV_USAGE,
    target=0.5,
    stable_window_s=180.0,
    panic_window_s=60.0,
    max_up_rate=2.0,
    down_delay_s=300.0,
    tick_s=10.0,
)


class PodAutoscaler:
    """A controller after Knative's decider.

    Args:
        settings: Windows, target and rates.
        bounds: Fewest and most replicas; none are scaled to zero.
    """

    def __init__(self, settings: KpaSettings, bounds: ReplicaBounds) -> None:
        self._settings = settings
        self._bounds = bounds
        self._loads: deque[tuple[float, float]] = deque()
        self._answers: deque[tuple[float, int]] = deque()
        self._panic_since_s: float | None = None
        self._panic_replicas = 0
        self._started = False
        self._next_due_s = AT_EVERY_SCRAPE

    @property
    def next_due_s(self) -> float:
        """One tick after the last."""
        return self._next_due_s

    def decide(self, fleet: FleetObservation, now_s: float) -> Orders:
        """One tick."""
        self._next_due_s = due_after(now_s, self._settings.tick_s)
        if not reporting(fleet):
            return NOTHING
        self._note_load(fleet, now_s)
        ready = len(fleet.serving)
        if not self._started:
            self._begin(ready, now_s)
        after = self._bounds.clamp(self._delayed(self._answer(max(1, ready), now_s), now_s))
        reason = "Stable" if self._panic_since_s is None else "Panic"
        same = after == fleet.desired_replicas
        return NOTHING if same else Orders(replicas=after, reason=reason)

    def _begin(self, ready: int, now_s: float) -> None:
        self._started = True
        if ready > 1:
            self._panic_since_s, self._panic_replicas = now_s, ready

    def _note_load(self, fleet: FleetObservation, now_s: float) -> None:
        self._loads.append((now_s, self._settings.gauge.total(fleet)))
        longest_s = max(self._settings.stable_window_s, self._settings.panic_window_s)
        while self._loads[0][0] <= now_s - longest_s:
            self._loads.popleft()

    def _asked(self, window_s: float, now_s: float) -> int:
        """Replicas for the mean load of a window."""
        loads = [load for at_s, load in self._loads if at_s > now_s - window_s]
        return ceil(sum(loads) / len(loads) / self._settings.target)

    def _answer(self, ready: int, now_s: float) -> int:
        s = self._settings
        most, fewest = ceil(s.max_up_rate * ready), floor(ready / s.max_down_rate)
        steady = self._asked(s.stable_window_s, now_s)
        quick = self._asked(s.panic_window_s, now_s)
        if quick / ready >= s.panic_threshold:
            self._panic_since_s = now_s
        elif self._panic_since_s is not None and self._panic_since_s + s.stable_window_s < now_s:
            self._panic_since_s, self._panic_replicas = None, 0
        steady, quick = (min(max(asked, fewest), most) for asked in (steady, quick))
        if self._panic_since_s is None:
            return steady
        self._panic_replicas = max(self._panic_replicas, steady, quick)
        return self._panic_replicas

    def _delayed(self, answer: int, now_s: float) -> int:
        """The highest answer of the delay."""
        self._answers.append((now_s, answer))
        while self._answers[0][0] < now_s - self._settings.down_delay_s:
            self._answers.popleft()
        return max(replicas for _, replicas in self._answers)
