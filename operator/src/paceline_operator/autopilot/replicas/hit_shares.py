"""What prefix caches find depends on how many replicas share the load.

Each replica has a cache of its own: a prefix that every replica has seen is found on all of them,
and the turns of a conversation only where they went before, one time in N where the router does
not look. So of N replicas the share found is taken as a + b / N; what b is, fleets of other
sizes have shown.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from paceline_operator.autopilot.plant.workload import hit_rate
from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary.memory import HitShare, Memory
from paceline_operator.autopilot.vocabulary.window import Counter

WARM_S = 240.0
"""How long a fleet must have served as it is before its caches hold what they will."""
MEASURED_S = 120.0
LEAST_REQUESTS = 100.0
COVERED = 0.9
"""Share of that which slices have to cover; the first of them lies across its beginning."""
REMEMBERED_S = 3600.0
APART = 1.25
DOUBT = 0.01
"""Added to the squared spread of 1 / N: sizes that lie close pull the line to none."""
OTHERS = 0.1
"""Where the same fleet finds so much more or less, requests have become others."""


def noted(s: Situation) -> Memory:
    """The memory with what a fleet of this size finds, once it has served for long enough."""
    memory, replicas = s.memory, len(s.fleet.serving)
    window = s.fleet.last(MEASURED_S)
    is_known = (
        window.count(Counter.PREFIX_QUERIES_TOKENS) > 0
        and window.count(Counter.REQUESTS_RECEIVED) >= LEAST_REQUESTS
    )
    if not is_known or not _is_warm(s):
        return memory
    share = hit_rate(window)
    known = next((each for each in memory.hit_shares if each.replicas == replicas), None)
    is_other = known is not None and abs(known.share - share) > OTHERS
    kept = () if is_other else _kept(memory, s.now_s)
    newest = HitShare(replicas=replicas, share=round(share, 4), at_s=s.now_s)
    others = tuple(each for each in kept if each.replicas != replicas)
    return replace(memory, hit_shares=(*others, newest))


def share_with(s: Situation, replicas: int) -> float:
    """What so many replicas would find, from what these find now; the same where nobody knows."""
    measured, known = s.plant.workload.hit_rate, _kept(s.memory, s.now_s)
    measured_with = _measured_with(s, known)
    if not known or not measured_with or not replicas:
        return measured
    found = measured + _slope(known) * (1.0 / replicas - 1.0 / measured_with)
    # Fewer caches hold less: no more is expected than some fleet has found.
    return min(max(measured, *(each.share for each in known)), max(0.0, found))


def _measured_with(s: Situation, known: tuple[HitShare, ...]) -> int:
    """How many replicas found what was measured: the last minutes are those of a former size."""
    if _is_warm(s) or not known:
        return len(s.fleet.serving)
    return max(known, key=lambda each: each.at_s).replicas


def _is_warm(s: Situation) -> bool:
    """Whether the same replicas have served for long enough; a lost one has left with its cache."""
    since_s = max(s.capacity_since_s(WARM_S), s.memory.scaled_in_at_s)
    if len(s.fleet.serving) != s.fleet.desired_replicas or not s.fleet.slices:
        return False
    lasted_s = s.fleet.slices[-1].end_s - since_s
    return lasted_s >= WARM_S - 1.0 and s.fleet.since(since_s).length_s >= COVERED * WARM_S


def _slope(known: tuple[HitShare, ...]) -> float:
    """The b of a + b / N by least squares; more replicas never find more.

    Sizes next to each other differ by chance: they say nothing, and others are not taken at
    their word.
    """
    sizes = [each.replicas for each in known]
    if max(sizes) < APART * min(sizes):
        return 0.0
    mean_x, mean_y = fmean(1.0 / k.replicas for k in known), fmean(k.share for k in known)
    moment = sum((1.0 / k.replicas - mean_x) ** 2 for k in known)
    lean = sum((1.0 / k.replicas - mean_x) * (k.share - mean_y) for k in known)
    return max(0.0, lean / (moment + DOUBT))


def _kept(memory: Memory, now_s: float) -> tuple[HitShare, ...]:
    return tuple(each for each in memory.hit_shares if now_s - each.at_s < REMEMBERED_S)
