"""What was offered before the slices that are kept, a minute each."""

from __future__ import annotations

from collections.abc import Sequence

from paceline_operator.autopilot.vocabulary.memory import Minute
from paceline_operator.autopilot.vocabulary.window import Counter, Window

KEPT_S = 600.0
"""Since when they are kept: the longest line is laid through so much."""
MINUTE_S = 60.0
_SAME_S = 1e-3
LATE_S = 150.0
"""A pod that missed rounds brings its arrivals late: a minute is taken once it is so old."""


def noted(known: tuple[Minute, ...], slices: Sequence[Window]) -> tuple[Minute, ...]:
    """The minutes, with those in them that have grown old enough."""
    if not slices:
        return known
    now_s = slices[-1].end_s
    found = [minute for minute in known if minute.start_s >= now_s - KEPT_S]
    while (minute := _next(found[-1].end_s if found else 0.0, slices)) is not None:
        found.append(minute)
    return tuple(found)


def offered_requests(window: Window) -> float:
    """Of the interactive tier: as many of all as its share of the tokens."""
    tokens = window.count(Counter.PROMPT_TOKENS_RECEIVED)
    share = window.offered_tokens / tokens if tokens else 1.0
    return share * window.count(Counter.REQUESTS_RECEIVED)


def _next(since_s: float, slices: Sequence[Window]) -> Minute | None:
    """The first one after a time; where nothing was measured it begins anew."""
    parts: list[Window] = []
    for window in slices:
        if window.start_s < since_s - _SAME_S:
            continue
        if window.end_s > slices[-1].end_s - LATE_S:
            return None
        if parts and window.start_s > parts[-1].end_s + _SAME_S:
            parts = []
        parts.append(window)
        if window.end_s - parts[0].start_s >= MINUTE_S - _SAME_S:
            return Minute(
                start_s=parts[0].start_s,
                end_s=window.end_s,
                tokens=sum(part.offered_tokens for part in parts),
                requests=sum(map(offered_requests, parts)),
            )
    return None
