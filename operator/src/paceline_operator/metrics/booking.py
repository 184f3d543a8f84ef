"""Growth of pods that were read at different moments, booked on slices that all of them cover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paceline_operator.autopilot.vocabulary.slices import ARRIVALS, Slices
from paceline_operator.autopilot.vocabulary.window import Window


class Booking:
    """Slices of a fleet's time, each as long as the growth that is in it.

    A server scrapes its pods one after the other, and is asked at other moments: growth is
    known up to another moment of each pod. A slice ends where the first of them does. What the
    others received after that waits for the next slice; all else is no rate, and stays with the
    round that saw it.
    """

    def __init__(self) -> None:
        self._slices = Slices()
        self._waiting: list[Window] = []
        self._until_s = float("-inf")

    def append(self, grown: Sequence[Window], now_s: float) -> tuple[Window, ...]:
        """Adds a round and returns all slices, oldest first.

        Args:
            grown: Growth of each pod of which there is news, between the two readings that it
                is the difference of.
            now_s: The operator's clock.
        """
        until_s = min((part.end_s for part in grown), default=self._until_s)
        if until_s <= self._until_s:
            # Only pods that are behind the last slice have news: they are waited for no more.
            self._waiting += grown
            return self._slices.append((), now_s)
        self._end_before(min(part.start_s for part in grown))
        cut = [_cut(part, until_s) for part in (*self._waiting, *grown)]
        self._waiting = [after for _, after in cut if after is not None]
        return self._append([before for before, _ in cut], until_s)

    def _end_before(self, start_s: float) -> None:
        """What waits from before a gap is a slice of its own, or it would be spread over that."""
        ended = [part for part in self._waiting if part.end_s < start_s]
        until_s = max((part.end_s for part in ended), default=self._until_s)
        if until_s > self._until_s:
            self._waiting = [part for part in self._waiting if part.end_s >= start_s]
            self._append(ended, until_s)

    def _append(self, parts: Sequence[Window], until_s: float) -> tuple[Window, ...]:
        # One that ended before the last slice did is stretched to it, and so shared out before.
        booked = [replace(part, end_s=max(part.end_s, self._until_s)) for part in parts]
        self._until_s = until_s
        return self._slices.append(booked, until_s)


def _cut(part: Window, until_s: float) -> tuple[Window, Window | None]:
    """A part up to a moment, and what was received after it."""
    if part.end_s <= until_s:
        return part, None
    start_s = max(part.start_s, until_s)
    share = (part.end_s - start_s) / part.length_s
    later = {each: share * part.count(each) for each in ARRIVALS if part.count(each)}
    kept = {each: part.count(each) - count for each, count in later.items()}
    before = replace(
        part,
        start_s=min(part.start_s, until_s),
        end_s=until_s,
        pod_seconds=(1.0 - share) * part.pod_seconds,
        counters={**part.counters, **kept},
    )
    after = Window(
        start_s=start_s,
        end_s=part.end_s,
        pod_seconds=share * part.pod_seconds,
        counters=later,
    )
    return before, after
