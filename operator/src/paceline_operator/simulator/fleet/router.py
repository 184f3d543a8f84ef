"""Chooses a pod for each request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from paceline_operator.simulator.fleet.fleet_config import Routing, RoutingKind
from paceline_operator.simulator.fleet.pods import Pod
from paceline_operator.simulator.generator import Generator


class Router(Protocol):
    """A rule; `pods` are those it knows, oldest first, one at least."""

    def choose(self, pods: Sequence[Pod], now_s: float) -> Pod:
        """The pod that gets the request."""


class LeastConnections:
    """HAProxy's rule: fewest open requests; among equals, whose count changed longest ago."""

    def choose(self, pods: Sequence[Pod], now_s: float) -> Pod:
        """The pod that gets the request."""
        best = pods[0]
        least, turn = 1 << 60, 0
        for pod in pods:
            engine = pod.engine
            if engine.next_event_s <= now_s:
                engine.advance(now_s)
            count = pod.connections
            if count < least or (count == least and pod.turn < turn):
                best, least, turn = pod, count, pod.turn
        return best


class StaleLeastConnections:
    """Fewest open requests by counts that are read now and then; equals take turns.

    Args:
        age_s: Age from which counts are read again.
    """

    def __init__(self, age_s: float) -> None:
        self._age_s = age_s
        self._read_s = float("-inf")
        self._counts: dict[int, int] = {}
        self._turns = RoundRobin()

    def choose(self, pods: Sequence[Pod], now_s: float) -> Pod:
        """The pod that gets the request."""
        if now_s - self._read_s >= self._age_s:
            self._read(pods, now_s)
        counts = self._counts
        least = min(counts.get(pod.number, 0) for pod in pods)
        equals = [pod for pod in pods if counts.get(pod.number, 0) == least]
        return self._turns.choose(equals, now_s)

    def _read(self, pods: Sequence[Pod], now_s: float) -> None:
        for pod in pods:
            pod.engine.advance(now_s)
        self._read_s = now_s
        self._counts = {pod.number: pod.connections for pod in pods}


class RoundRobin:
    """One after another."""

    def __init__(self) -> None:
        self._last = 0

    def choose(self, pods: Sequence[Pod], now_s: float) -> Pod:
        """The pod that gets the request."""
        chosen = next((pod for pod in pods if pod.number > self._last), pods[0])
        self._last = chosen.number
        return chosen


class Random:
    """Any, equally likely."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator

    def choose(self, pods: Sequence[Pod], now_s: float) -> Pod:
        """The pod that gets the request."""
        return pods[self._generator.randrange(len(pods))]


class Skewed:
    """A share of all requests for the oldest pod, the others by another rule among the others.

    Args:
        share: That share.
        others: That rule.
    """

    def __init__(self, share: float, others: Router, generator: Generator) -> None:
        self._share = share
        self._others = others
        self._generator = generator

    def choose(self, pods: Sequence[Pod], now_s: float) -> Pod:
        """The pod that gets the request."""
        if len(pods) == 1 or self._generator.random() < self._share:
            return pods[0]
        return self._others.choose(pods[1:], now_s)


def router(routing: Routing, generator: Generator) -> Router:
    """The router of that description."""
    match routing.kind:
        case RoutingKind.RANDOM:
            return Random(generator)
        case RoutingKind.ROUND_ROBIN:
            return RoundRobin()
        case RoutingKind.LEAST_CONNECTIONS:
            return LeastConnections()
        case RoutingKind.STALE_LEAST_CONNECTIONS:
            return StaleLeastConnections(routing.age_s)
        case RoutingKind.SKEWED:
            return Skewed(routing.share, LeastConnections(), generator)
