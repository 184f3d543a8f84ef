"""What must not grow, looked at again and again while a soak runs."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

PAGE_BYTES = 4096
RSS_TOLERANCE = 0.02
OBJECTS_A_CALL = 0.5  # a leak is one at least


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One look, while nothing is in progress.

    Attributes:
        at_s: Virtual time since the start.
        calls: That have ended, floods too.
        rss_bytes: Resident memory of the process.
        objects: Objects that the garbage collector tracks.
        tasks: asyncio tasks, the soak's own left out.
        timers: Timers armed on the loop.
        blocks_held: KV blocks in a table.
        waiting: Requests the admission counts.
        streams: Requests the client follows.
    """

    at_s: float
    calls: int
    rss_bytes: int
    objects: int
    tasks: int
    timers: int
    blocks_held: int
    waiting: int
    streams: int


def rss_bytes() -> int:
    """Resident memory now, garbage collected."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def growth(values: Sequence[int]) -> float:
    """Growth from the second quarter of the values to the last.

    The first quarter is warm-up: caches fill, the allocator takes what it will need.
    """
    before, after = _levels(values)
    return after / before - 1


def memory_growth(samples: Sequence[Sample]) -> float:
    """Growth of resident memory; see `growth`."""
    return growth([each.rss_bytes for each in samples])


def objects_a_call(samples: Sequence[Sample]) -> float:
    """Objects that stay for each call, after the warm-up.

    Counted by calls and not as a share of all objects, which would be the smaller the more
    modules are loaded.
    """
    before, after = _levels([each.objects for each in samples])
    first, last = _levels([each.calls for each in samples])
    return (after - before) / max(1.0, last - first)


def leaks(samples: Sequence[Sample]) -> list[str]:
    """What was left over or has grown, one line each."""
    found = []
    first = samples[0]
    for name in ("tasks", "timers"):
        values = [getattr(each, name) for each in samples]
        if max(values) > getattr(first, name) + 1:
            found.append(f"{name}: {values[0]} at first, {max(values)} later, while idle")
    for name in ("blocks_held", "waiting", "streams"):
        worst = max(getattr(each, name) for each in samples)
        if worst:
            found.append(f"{name}: {worst} while idle")
    grown = memory_growth(samples)
    if grown > RSS_TOLERANCE:
        found.append(f"memory grew by {grown:.1%}, more than {RSS_TOLERANCE:.0%}")
    left = objects_a_call(samples)
    if left > OBJECTS_A_CALL:
        found.append(f"{left:.2f} objects stay for each call, more than {OBJECTS_A_CALL}")
    return found


def _levels(values: Sequence[int]) -> tuple[float, float]:
    quarter = max(1, len(values) // 4)
    return median(values[quarter : 2 * quarter]), median(values[-quarter:])
