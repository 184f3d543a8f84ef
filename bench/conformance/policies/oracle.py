"""Replicas for a load that is known beforehand: the yardstick, no policy that anybody could run.

Rule: time is cut into slots; a slot needs ceil(headroom x work / slot) replicas, work being the
replica-seconds that the requests arriving in it take. What a slot needs is ordered one cold start
early and given back once it has not been needed for the down window, so that the oracle is bound
by cold start and down window as everybody; with neither it is the unbound one. It knows of shared
prefixes and of faults that slow steps down. The headroom is for the tail of the latencies, which
the work says nothing about: the smallest is looked for with which the objectives are met.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from math import ceil, prod

from bench.conformance.policies.cadence import NEVER
from bench.conformance.policies.site import ReplicaBounds
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation, Tunables
from paceline_operator.simulator.controller import NOTHING, Orders
from paceline_operator.simulator.fleet.faults import Fault, StepsSlower
from paceline_operator.simulator.fleet.fleet_config import BEGIN_S
from paceline_operator.simulator.law import StepLaw
from paceline_operator.simulator.request import PREFIX_BLOCK_TOKENS, Request

Work = Callable[[Request, int], float]
"""Replica-seconds one request takes at the best budget, with so many prompt tokens computed."""

_SAME = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """What the world binds the oracle to.

    Attributes:
        cold_start_s: From a replica ordered to one that serves.
        down_window_s: How long a replica must not have been needed before it goes.
        slot_s: Stretch in which the offered work has to fit.
    """

    cold_start_s: float
    down_window_s: float
    slot_s: float = 15.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Replicas over time: `replicas[i]` from `starts_s[i]` of the load on."""

    starts_s: tuple[float, ...]
    replicas: tuple[int, ...]

    def at(self, time_s: float) -> int:
        """Replicas wanted at a time; before the first one, as many as then."""
        return self.replicas[max(0, bisect_right(self.starts_s, time_s) - 1)]

    def next_change_s(self, time_s: float) -> float:
        """When it changes after a time; infinite where it does not."""
        place = bisect_right(self.starts_s, time_s)
        return self.starts_s[place] if place < len(self.starts_s) else NEVER


def per_request(rps: float) -> Work:
    """For engines that carry `rps` requests per second, whatever they are."""
    return lambda _request, _computed: 1.0 / rps


def per_prompt_token(tokens_per_s: float) -> Work:
    """For engines that compute so many prompt tokens per second."""
    return lambda _request, computed: computed / tokens_per_s


def by_law(law: StepLaw, budget: int) -> Work:
    """By the step law: prompts in full steps, answers by what their rows and KV add to steps."""
    per_token_s = law.step_ms(budget, 0, 0, 0) / budget / 1e3

    def work_s(request: Request, computed: int) -> float:
        resident = request.prompt_tokens + request.output_tokens / 2
        row_s = (law.per_decode_row_ms + law.per_kv_token_ms * resident) / 1e3
        return computed * per_token_s + request.output_tokens * row_s

    return work_s


def offered(
    requests: Iterable[Request], work: Work, slot_s: float, faults: Iterable[Fault] = ()
) -> tuple[float, ...]:
    """Replicas that each slot's requests keep busy; the load is read once.

    Args:
        requests: The load.
        work: Of one request.
        slot_s: Length of a slot.
        faults: Those that slow down the steps of all pods make the work of their time longer.
    """
    slow = [each for each in faults if isinstance(each, StepsSlower) and each.pods is None]
    busy: list[float] = []
    timed = _with_computed(requests)
    for slot, group in groupby(timed, key=lambda pair: int(pair[0].arrival_s // slot_s)):
        busy.extend([0.0] * (slot - len(busy)))
        busy.append(sum(_pace(r.arrival_s, slow) * work(r, c) for r, c in group) / slot_s)
    return tuple(busy)


def _with_computed(requests: Iterable[Request]) -> Iterator[tuple[Request, int]]:
    """Each request with its prompt tokens that no prompt before it began with."""
    seen: set[int] = set()
    for request in requests:
        known = sum(1 for _ in takewhile(seen.__contains__, request.prefix_blocks))
        seen.update(request.prefix_blocks)
        yield request, max(1, request.prompt_tokens - known * PREFIX_BLOCK_TOKENS)


def _pace(time_s: float, slow: Sequence[StepsSlower]) -> float:
    """How many times as long a step takes at a time."""
    return prod(fault.factor for fault in slow if fault.holds(time_s))


def plan(busy: Sequence[float], headroom: float, binding: Binding, bounds: ReplicaBounds) -> Plan:
    """The fewest replicas at all times.

    Args:
        busy: Of `offered`, with the slot of the binding.
        headroom: Factor on the work.
        binding: Cold start and down window.
        bounds: Fewest and most replicas.
    """
    needs = [bounds.clamp(ceil(headroom * share - _SAME)) for share in busy] or [bounds.least]
    ahead = ceil(binding.cold_start_s / binding.slot_s)
    behind = ceil(binding.down_window_s / binding.slot_s)
    wanted = _highest(needs, behind, ahead)
    starts = [0, *(n for n in range(1, len(wanted)) if wanted[n] != wanted[n - 1])]
    return Plan(
        starts_s=tuple(binding.slot_s * n for n in starts),
        replicas=tuple(wanted[n] for n in starts),
    )


def _highest(needs: Sequence[int], behind: int, ahead: int) -> list[int]:
    """Of each slot, the highest need from `behind` slots before to `ahead` after, to the end."""
    found: list[int] = []
    falling: deque[int] = deque()
    for place in range(len(needs) + behind + ahead):
        if place < len(needs):
            while falling and needs[falling[-1]] <= needs[place]:
                falling.pop()
            falling.append(place)
        slot = place - ahead
        while falling and falling[0] < slot - behind:
            falling.popleft()
        if slot >= 0:
            found.append(needs[falling[0]])
    return found


class Oracle:
    """Carries a plan out.

    Args:
        found: The plan.
        tunables: Live knobs of the best budget, None to leave them.
        begin_s: The operator's clock when the load begins.
    """

    def __init__(
        self, found: Plan, tunables: Tunables | None = None, begin_s: float = BEGIN_S
    ) -> None:
        self._plan = found
        self._tunables = tunables
        self._begin_s = begin_s
        self._next_due_s = begin_s

    @property
    def next_due_s(self) -> float:
        """The plan's next change."""
        return self._next_due_s

    def decide(self, fleet: FleetObservation, now_s: float) -> Orders:
        """What the plan says of now."""
        time_s = now_s - self._begin_s
        self._next_due_s = self._begin_s + self._plan.next_change_s(time_s)
        replicas = self._plan.at(time_s)
        moved = replicas if replicas != fleet.desired_replicas else None
        turned = self._tunables if self._tunables != fleet.desired_tunables else None
        if moved is None and turned is None:
            return NOTHING
        return Orders(replicas=moved, tunables=turned, reason="Oracle")
