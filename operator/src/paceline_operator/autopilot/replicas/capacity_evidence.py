"""What measured first tokens say of the capacity that the model predicts.

Near its limit the share of late first tokens of a replica grows about as a power of the rate it
carries, so a share measured at one rate tells where it will be what the objective allows, not
far from there. Measured on simulated fleets of 4 to 7 replicas with least
connections (docs/autopilot.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import exp, log

from paceline_operator.autopilot.measurement.attainment import ENOUGH_SAMPLES, measure, wilson
from paceline_operator.autopilot.plant.workload import hit_rate
from paceline_operator.autopilot.replicas.pending import coming, late_from_before
from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.autopilot.vocabulary.window import Counter, Window

AIM = 0.7
"""Share of the allowed misses that a fleet in a steady state should make."""
GROWTH = 4.7
"""The power of the rate with which the late share grows."""
FARTHEST = 1.35
"""How far above a rate that was measured capacity may be taken for proven."""
LEAST_FACTOR = 0.3
MOST_FACTOR = 1.5
RAISE_STEP = 1.05
RECOVERY = 1.02
BUSY = 0.5
"""Who is late on a replica that carries less than this of what it should is not late by the load.
"""
EVERY_S = 30.0
WINDOW_S = 300.0
SHORTEST_S = 60.0
STEADY = 0.25
_CLUSTER = 2.0
"""Requests that are late together count as one: a queue makes all late who stand in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Between which figures the capacity of one replica lies.

    Attributes:
        rps: What it carried.
        least_rps: It carries so much at least.
        most_rps: It carries no more; infinite where nothing says so.
        dearer: How many times as much of a prompt is computed now as was then, by what prefix
            caches hold; 1 where prompts of the batch tier hide that.
    """

    rps: float
    least_rps: float
    most_rps: float
    dearer: float = 1.0


def corrected(s: Situation) -> Memory:
    """The memory with the factor on the predicted capacity that the evidence asks for.

    The prediction is kept where the evidence allows it. It falls at once to what was measured
    and rises in small steps, each of which new evidence has to bear. Nothing is learned of a
    capacity that is changing, of prompts that cost something else now, or while there is a
    backlog or a queue from before drains.
    """
    memory = s.memory
    if s.now_s - memory.capacity_factor_at_s < EVERY_S or coming(s) or late_from_before(s):
        return memory
    found, predicted_rps = evidence(s), s.uncorrected_rps
    if found is None or not predicted_rps or abs(found.dearer - 1.0) > STEADY:
        return memory
    factor = min(
        max(_recovering(memory.capacity_factor), found.least_rps / predicted_rps),
        RAISE_STEP * memory.capacity_factor,
    )
    if found.rps > BUSY * predicted_rps:
        factor = min(factor, found.most_rps / predicted_rps)
    factor = min(MOST_FACTOR, max(LEAST_FACTOR, factor))
    return replace(memory, capacity_factor=factor, capacity_factor_at_s=s.now_s)


def carried_rps(s: Situation) -> float | None:
    """What each replica surely carries, since it does; None where nothing proves it.

    No prediction may fall below it: a model that was just taught otherwise is wrong. Of prompts
    that caches no longer hold, less is carried by as much as more of each is computed.
    """
    found = evidence(s)
    return None if found is None else min(found.rps, found.least_rps) / max(1.0, found.dearer)


def late_share_with(s: Situation, replicas: int) -> float | None:
    """Late first tokens over those allowed, if so many replicas carried what these do.

    None where nothing steady was measured.
    """
    window = _steady(s)
    if window is None or s.attainable[0] is None:
        return None
    more = len(s.fleet.serving) / replicas
    shares = [
        (1.0 - found.attainment) * more**GROWTH / (1.0 - objective.share)
        for objective in s.ttft_objectives
        for found in (measure(objective, window),)
        if found.attainment is not None and found.samples >= ENOUGH_SAMPLES
    ]
    return max(shares, default=None)


def _recovering(factor: float) -> float:
    """What lowered it is long ago where nothing that is measured now speaks for it."""
    return min(1.0, RECOVERY * factor) if factor < 1.0 else factor


def evidence(s: Situation) -> Evidence | None:
    """What the time since the last change of capacity proves; None where it proves nothing."""
    window = None if s.half_blind else _steady(s)
    if window is None or s.attainable[0] is None:
        return None
    rps = _rate(s, window) / len(s.fleet.serving)
    bounds = list(_bounds(s, window, rps))
    if not bounds or not rps:
        return None
    return Evidence(
        rps=rps,
        least_rps=min(each.least_rps for each in bounds),
        most_rps=min(each.most_rps for each in bounds),
        dearer=_dearer(s, window),
    )


def _dearer(s: Situation, window: Window) -> float:
    if window.count(Counter.BATCH_TOKENS_RECEIVED):
        return 1.0
    return s.plant.workload.computed_share / (1.0 - hit_rate(window))


def _bounds(s: Situation, window: Window, rps: float) -> Iterator[Evidence]:
    for objective in s.ttft_objectives:
        found = measure(objective, window)
        if found.attainment is not None and found.samples >= ENOUGH_SAMPLES:
            yield _bound(objective, found.attainment, found.samples, rps)


def _bound(objective: Objective, attainment: float, samples: int, rps: float) -> Evidence:
    aim = AIM * (1.0 - objective.share)
    lowest, highest = wilson(attainment, samples / _CLUSTER)
    surely = rps * _reach(aim, 1.0 - lowest)
    perhaps = _reach(aim, 1.0 - highest)
    # At a light load who is late is late by chance, not by the load.
    most_rps = rps * perhaps if perhaps < 1.0 else float("inf")
    return Evidence(rps=rps, least_rps=surely, most_rps=most_rps)


def _reach(aim: float, late: float) -> float:
    """How many times the present rate brings the late share to the aim."""
    return min(FARTHEST, exp(log(aim / max(late, 1e-9)) / GROWTH))


def _steady(s: Situation) -> Window | None:
    """Measurements since fleet and knobs are what they are, while the load was about the same."""
    memory = s.memory
    moved_s = max(memory.lowered_at_s, memory.raised_at_s, memory.scaled_in_at_s)
    window = s.fleet.since(max(s.capacity_since_s(WINDOW_S), moved_s))
    if window.length_s < SHORTEST_S or not s.fleet.serving:
        return None
    rate, now = _rate(s, window), s.demand.now_rps
    return window if abs(now - rate) <= STEADY * rate else None


def _rate(s: Situation, window: Window) -> float:
    """Requests of the mean size per second that were offered."""
    offered = window.offered_tokens / window.length_s
    return offered / max(1.0, s.plant.workload.prompt_mean)
