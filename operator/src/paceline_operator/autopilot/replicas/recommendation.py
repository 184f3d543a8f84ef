"""The record behind the down window: scale-in goes no lower than its peak."""

from __future__ import annotations

from dataclasses import replace

from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary.memory import Memory, Recommendation, Return

COLD_STARTS = 2.0
RETURN_S = 300.0
"""Replicas that come back sooner need not have gone."""
MOST_WINDOWS = 4.0
"""Longest window, in times the usual one."""
RETURN_LASTS_S = 3600.0
LONGEST_GAP_S = 60.0
LEAST_SEEN_S = 60.0
MOST_KEPT = 64
"""Peaks remembered; the status has to hold them."""


def down_window_s(s: Situation) -> float:
    """How long a recommendation counts: never shorter than two cold starts.

    Longer where the load came back lately, so that its tides do not make replicas come and go.
    """
    known, least_s = s.memory.returned, _least_s(s)
    if known is None or s.now_s - known.at_s >= RETURN_LASTS_S:
        return least_s
    return max(least_s, min(known.window_s, MOST_WINDOWS * least_s))


def _least_s(s: Situation) -> float:
    return max(s.policy.down_window_s, COLD_STARTS * s.usual_start_s)


def of_scale_out(s: Situation) -> Return | None:
    """What is known of loads that come back, when replicas go up now.

    Of each scale-in the first way back counts; what somebody else took away does not.
    """
    known, gone_s = s.memory.returned, s.now_s - s.memory.scaled_in_at_s
    is_counted = known is not None and known.at_s >= s.memory.scaled_in_at_s
    if gone_s >= RETURN_S or is_counted or not s.memory.scaled_in_from:
        return known
    window_s = min(MOST_WINDOWS * _least_s(s), down_window_s(s) + gone_s)
    return Return(at_s=s.now_s, window_s=window_s)


def recorded(s: Situation, memory: Memory, replicas: int) -> Memory:
    """Adds a recommendation and forgets what no longer counts.

    A process that took over and has seen less than a minute knows too little to want fewer than
    the one before it did. Only values that may still become the peak are kept, so the record is
    short: newer ones that are as high make older ones pointless.
    """
    since_s = memory.recommending_since_s
    last_s = max((r.time_s for r in memory.recommended), default=-LONGEST_GAP_S)
    unbroken = since_s is not None and s.now_s - last_s <= LONGEST_GAP_S
    if sum(window.length_s for window in s.fleet.slices) < LEAST_SEEN_S:
        replicas = max(replicas, peak(memory))
    oldest_s = s.now_s - down_window_s(s)
    kept = (r for r in memory.recommended if r.time_s > oldest_s and r.replicas > replicas)
    newest = Recommendation(time_s=s.now_s, replicas=replicas)
    return replace(
        memory,
        recommended=_bounded([*kept, newest]),
        recommending_since_s=since_s if unbroken else s.now_s,
    )


def _bounded(kept: list[Recommendation]) -> tuple[Recommendation, ...]:
    """No more than fit; of two that become one the higher holds for as long as the later."""
    while len(kept) > MOST_KEPT:
        place = min(range(len(kept) - 2), key=lambda n: kept[n].replicas - kept[n + 1].replicas)
        higher, later = kept[place : place + 2]
        kept[place : place + 2] = [replace(higher, time_s=later.time_s)]
    return tuple(kept)


def interrupted(memory: Memory) -> Memory:
    """The record begins anew: what was not seen may have needed more."""
    return replace(memory, recommending_since_s=None)


def peak(memory: Memory) -> int:
    """Highest recommendation that counts."""
    return max((r.replicas for r in memory.recommended), default=0)


def peaks_ahead(s: Situation, memory: Memory) -> tuple[tuple[float, int], ...]:
    """How far the peak will have fallen, and from when on, if nothing higher comes.

    The first entry is of now; the record has to be unbroken over the whole window too.
    """
    window_s = down_window_s(s)
    since_s = s.now_s if memory.recommending_since_s is None else memory.recommending_since_s
    full_s = max(s.now_s, since_s + window_s)
    falls = [(max(full_s, s.now_s), peak(memory))]
    kept = sorted(memory.recommended, key=lambda r: r.time_s)
    for place, passed in enumerate(kept[:-1]):
        left = max(r.replicas for r in kept[place + 1 :])
        falls.append((max(full_s, passed.time_s + window_s), left))
    return tuple(falls)


def window_full(s: Situation) -> bool:
    """Whether the record reaches back over the whole down window."""
    since_s = s.memory.recommending_since_s
    return since_s is not None and s.now_s - since_s >= down_window_s(s)
