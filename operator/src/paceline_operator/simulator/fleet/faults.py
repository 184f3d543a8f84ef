"""What goes wrong in a simulated fleet, as data; times count from the load's beginning."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf, prod

from paceline_operator.simulator.engine.speculation import NO_SPECULATION, Speculation

Numbers = frozenset[int]
"""Pods in the order they were made, the first one is 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """A time in which something is wrong: from `start_s` until just before `end_s`."""

    start_s: float
    end_s: float = inf

    def holds(self, now_s: float) -> bool:
        """Whether it is on."""
        return self.start_s <= now_s < self.end_s


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSpell(Spell):
    """One that concerns some pods; all where `pods` is None."""

    pods: Numbers | None = None

    def hits(self, number: int, now_s: float) -> bool:
        """Whether it is on for a pod."""
        return (self.pods is None or number in self.pods) and self.holds(now_s)


class ScrapesLost(PodSpell):
    """Metrics do not answer."""

    __slots__ = ()


class MetricsFrozen(PodSpell):
    """Metrics answer, with what was true at their last sound answer; of a lost pod as well."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingKept(PodSpell):
    """Metrics count requests as waiting whose clients are gone, beside those that do wait.

    Attributes:
        requests: How many, of the interactive tier.
        tokens: Prompt tokens of all of them.
    """

    requests: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsSlower(PodSpell):
    """Every step takes `factor` times as long."""

    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculating(PodSpell):
    """Engines guess tokens ahead and keep the right ones: each step gives several at once.

    Attributes:
        tokens: That each decode gets of a step.
        factor: How many times as long the decodes of a step take for it.
    """

    tokens: int
    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PushesLost(PodSpell):
    """A push of live values fails with a probability."""

    probability: float = 1.0


class PushesIgnored(PodSpell):
    """Engines acknowledge live values, report them, and run with the old ones."""

    __slots__ = ()


class ValuesKept(PodSpell):
    """Engines acknowledge live values, and go on with the old ones, which they report."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesLinger(Spell):
    """The last values of a pod that is gone are delivered on, for `linger_s`."""

    linger_s: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Autoscaled(Spell):
    """An autoscaler targets the Deployment and writes replicas, every 15 s."""

    replicas: int
    name: str = "HorizontalPodAutoscaler somebody"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterSkewed(Spell):
    """The router sends a share of all requests to the oldest pod it knows."""

    share: float


class PodsStuck(Spell):
    """Pods that get a node meanwhile begin to start only when it is over."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRoom(Spell):
    """The nodes hold no more than some pods; others wait without a node."""

    pods: int


class OperatorAway(Spell):
    """No operator; the one that comes after it knows only what the cluster keeps."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodKilled:
    """A pod ends without warning and loses its requests.

    Attributes:
        at_s: When.
        place: Which one: its place among the ready pods, oldest first, counted round.
        unnoticed_s: How long it is still listed as ready, as on a node that is lost.
    """

    at_s: float
    place: int = 0
    unnoticed_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleWritten:
    """Somebody else writes replicas."""

    at_s: float
    replicas: int
    manager: str = "somebody"


Fault = Spell | PodKilled | ScaleWritten


class Faults:
    """All that goes wrong, to be asked at any moment of a clock.

    Args:
        faults: Times from the load's beginning.
        begin_s: The clock's reading then.

    Attributes:
        all: The faults, by that clock.
    """

    def __init__(self, faults: Iterable[Fault], begin_s: float) -> None:
        self.all = tuple(_shifted(fault, begin_s) for fault in faults)
        self._slower = [fault for fault in self.all if isinstance(fault, StepsSlower)]
        self._speculating = [fault for fault in self.all if isinstance(fault, Speculating)]
        self._kept = [fault for fault in self.all if isinstance(fault, WaitingKept)]
        self._lost = [fault for fault in self.all if isinstance(fault, PushesLost)]
        self._skewed = [fault for fault in self.all if isinstance(fault, RouterSkewed)]
        self._full = [fault for fault in self.all if isinstance(fault, NoRoom)]
        self._stuck = [fault for fault in self.all if isinstance(fault, PodsStuck)]

    def hits(self, kind: type[PodSpell], number: int, now_s: float) -> bool:
        """Whether something of a kind is on for a pod."""
        return any(isinstance(fault, kind) and fault.hits(number, now_s) for fault in self.all)

    def slowness(self, number: int, now_s: float) -> float:
        """How many times as long a pod's steps take."""
        return prod(fault.factor for fault in self._slower if fault.hits(number, now_s))

    def speculation(self, number: int, now_s: float) -> Speculation:
        """How a pod's engine speculates."""
        found = (f for f in self._speculating if f.hits(number, now_s))
        return max((Speculation(f.tokens, f.factor) for f in found), default=NO_SPECULATION)

    def waiting_kept(self, number: int, now_s: float) -> tuple[int, int]:
        """Requests that a pod counts as waiting and that do not, and their prompt tokens."""
        found = [fault for fault in self._kept if fault.hits(number, now_s)]
        return sum(fault.requests for fault in found), sum(fault.tokens for fault in found)

    def push_loss(self, number: int, now_s: float) -> float:
        """Probability that a push to a pod fails."""
        passed = (1.0 - fault.probability for fault in self._lost if fault.hits(number, now_s))
        return 1.0 - prod(passed)

    def skew(self, now_s: float) -> float | None:
        """Share of requests for the oldest pod, None where the router is sound."""
        if not self._skewed:
            return None
        return max((fault.share for fault in self._skewed if fault.holds(now_s)), default=None)

    def autoscaler(self, now_s: float) -> str | None:
        """Kind and name of an autoscaler that targets the Deployment, None without one."""
        found = (f.name for f in self.all if isinstance(f, Autoscaled) and f.holds(now_s))
        return next(found, None)

    def lingers_s(self, now_s: float) -> float:
        """How long the series of a pod that is gone are delivered."""
        found = (f.linger_s for f in self.all if isinstance(f, SeriesLinger) and f.holds(now_s))
        return max(found, default=0.0)

    def room(self, now_s: float) -> float:
        """Pods that the nodes hold."""
        return min((fault.pods for fault in self._full if fault.holds(now_s)), default=inf)

    def starts_s(self, now_s: float) -> float:
        """When a pod that gets a node now begins to start."""
        return max((fault.end_s for fault in self._stuck if fault.holds(now_s)), default=now_s)


def _shifted(fault: Fault, by_s: float) -> Fault:
    if isinstance(fault, Spell):
        return replace(fault, start_s=by_s + fault.start_s, end_s=by_s + fault.end_s)
    return replace(fault, at_s=by_s + fault.at_s)
