"""How an HPA smooths recommendations and limits the speed of its moves.

Source: Kubernetes, `autoscaling/v2` `behavior` and its defaults; kube-controller-manager's
horizontal controller.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import ceil, trunc

from bench.conformance.policies.site import ReplicaBounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """At most so many pods, or so many per cent of what there was, within a period."""

    pods: int = 0
    percent: float = 0.0
    period_s: float = 15.0

    def up(self, start: int) -> int:
        """Most replicas, from those at the beginning of the period."""
        return start + self.pods if self.pods else ceil(start * (1 + self.percent / 100))

    def down(self, start: int) -> int:
        """Fewest replicas, alike."""
        return start - self.pods if self.pods else trunc(start * (1 - self.percent / 100))


@dataclass(frozen=True, slots=True, kw_only=True)
class Behavior:
    """The `behavior` block; the defaults are those of Kubernetes.

    Attributes:
        up_window_s: A scale-up goes no higher than any recommendation this young.
        down_window_s: A scale-down goes no lower than any recommendation this young.
        up_limits: The most generous one counts.
        down_limits: Alike.
    """

    up_window_s: float = 0.0
    down_window_s: float = 300.0
    up_limits: tuple[Limit, ...] = (Limit(percent=100), Limit(pods=4))
    down_limits: tuple[Limit, ...] = (Limit(percent=100),)


class Pace:
    """The memory behind a behaviour: recommendations and moves.

    What there is at first counts as a recommendation.

    Args:
        behavior: What is allowed.
        bounds: Fewest and most replicas.
    """

    def __init__(self, behavior: Behavior, bounds: ReplicaBounds) -> None:
        self._behavior = behavior
        self._bounds = bounds
        self._recommended: deque[tuple[float, int]] = deque()
        self._moves: deque[tuple[float, int]] = deque()

    def settled(self, wanted: int, current: int, now_s: float) -> int:
        """The replicas that a recommendation leads to now."""
        if not self._recommended:
            self._recommended.append((now_s, current))
        steady = self._stabilised(wanted, current, now_s)
        after = self._bounds.clamp(self._limited(steady, current, now_s))
        if after != current:
            self._note_move(after - current, now_s)
        return after

    def _note_move(self, change: int, now_s: float) -> None:
        limits = (*self._behavior.up_limits, *self._behavior.down_limits)
        longest_s = max(limit.period_s for limit in limits)
        while self._moves and self._moves[0][0] <= now_s - longest_s:
            self._moves.popleft()
        self._moves.append((now_s, change))

    def _stabilised(self, wanted: int, current: int, now_s: float) -> int:
        recent = self._recommended
        up_s, down_s = self._behavior.up_window_s, self._behavior.down_window_s
        while recent and recent[0][0] <= now_s - max(up_s, down_s):
            recent.popleft()
        highest_up = min([wanted, *(n for at_s, n in recent if at_s > now_s - up_s)])
        lowest_down = max([wanted, *(n for at_s, n in recent if at_s > now_s - down_s)])
        recent.append((now_s, wanted))
        return min(max(current, highest_up), lowest_down)

    def _limited(self, wanted: int, current: int, now_s: float) -> int:
        if wanted > current:
            limits = self._behavior.up_limits
            most = max(limit.up(self._start(current, limit, now_s)) for limit in limits)
            return min(wanted, max(most, current))
        if wanted < current:
            limits = self._behavior.down_limits
            fewest = min(limit.down(self._start(current, limit, now_s)) for limit in limits)
            return max(wanted, min(fewest, current))
        return current

    def _start(self, current: int, limit: Limit, now_s: float) -> int:
        """Replicas at the beginning of the limit's period."""
        return current - sum(n for at_s, n in self._moves if at_s > now_s - limit.period_s)
