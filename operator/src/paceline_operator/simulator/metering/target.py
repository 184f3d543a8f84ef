"""Where the target of an objective lies on the line of seconds."""

from __future__ import annotations

from functools import cache
from math import inf, nextafter


@cache
def longest_s(target_ms: int) -> float:
    """The longest time that still meets a target, to the last bit.

    Engines compare in milliseconds; this is the bound that gives the same verdict in seconds.
    """
    longest = target_ms / 1e3
    while longest * 1e3 > target_ms:
        longest = nextafter(longest, 0.0)
    while nextafter(longest, inf) * 1e3 <= target_ms:
        longest = nextafter(longest, inf)
    return longest
