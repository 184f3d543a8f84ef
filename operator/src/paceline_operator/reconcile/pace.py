"""How often engines are read: as often as wanted, less often where one core cannot keep up."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from paceline_operator.metrics import Source
from paceline_operator.reconcile.instruments import Instruments

log = logging.getLogger(__name__)

LONGEST_S = 15.0
LOOK_EVERY_S = 10.0
LATE_S = 1.0
"""A pass that begins later than this after it was due, waited for others."""
MUCH, AIM, LITTLE = 0.8, 0.65, 0.5
"""Shares of a core: above the first intervals are stretched towards the second, below the last
they are shortened again."""
MOST_STRETCH, MOST_CUT = 1.5, 0.8


def paced(interval_s: float, least_s: float, busy: float, late_s: float) -> float:
    """The next interval between rounds of scrapes; what they cost falls as it grows.

    Args:
        interval_s: The present one.
        least_s: What is wanted.
        busy: Share of one core that the process used since the last look.
        late_s: How late the latest pass began since then.
    """
    by_core = busy / AIM if busy > MUCH else 1.0
    by_delay = 1.0 + late_s / interval_s if late_s > LATE_S else 1.0
    stretch = max(by_core, by_delay)
    if stretch > 1.0:
        return min(max(LONGEST_S, least_s), interval_s * min(MOST_STRETCH, stretch))
    if busy < LITTLE:
        return max(least_s, interval_s * max(MOST_CUT, busy / AIM))
    return interval_s


class Pace:
    """Keeps a source's interval in step with what this process can do.

    Args:
        source: Whose interval it is; it is never read more often than at first.
        latest: How late the latest pass began since this was last asked, in seconds.
        instruments: Show the interval in force.
    """

    def __init__(
        self, source: Source, latest: Callable[[], float], instruments: Instruments
    ) -> None:
        self._source = source
        self._least_s = source.interval_s
        self._latest = latest
        self._instruments = instruments
        instruments.scrape_interval.set(source.interval_s)

    async def keep(self) -> None:
        """Look now and then until cancelled."""
        cpu_s, at_s = time.process_time(), time.monotonic()
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            cpu_before_s, before_s = cpu_s, at_s
            cpu_s, at_s = time.process_time(), time.monotonic()
            self.look((cpu_s - cpu_before_s) / max(at_s - before_s, 1e-3))

    def look(self, busy: float) -> None:
        """Set the interval by the share of a core that was used since the last look."""
        before_s, late_s = self._source.interval_s, self._latest()
        after_s = paced(before_s, self._least_s, busy, late_s)
        if after_s == before_s:
            return
        self._source.interval_s = after_s
        self._instruments.scrape_interval.set(after_s)
        log.info(
            "engines are read every %.1f s instead of %.1f s: %.0f %% of a core used, passes up to "
            "%.1f s late", after_s, before_s, 100 * busy, late_s,
        )  # fmt: skip
