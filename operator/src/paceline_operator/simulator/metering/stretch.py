"""Decode-only steps in a row, in closed form: what they add up to, without a look at each.

The batch stays the same, so every step reads `rows` KV tokens more than the one before and
takes a little longer: step i takes first_s + i x growth_s, from i = 0, and growth_s >= 0.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple


class Stretch(NamedTuple):
    """Such steps.

    Attributes:
        steps: How many, 1 at least.
        rows: Decode rows of each.
        kv_tokens: Resident KV tokens that the first one reads.
        first_s: Time of the first one.
        growth_s: By how much each is longer than the one before, 0 at least.
    """

    steps: int
    rows: int
    kv_tokens: int
    first_s: float
    growth_s: float

    @property
    def seconds(self) -> float:
        """All of them together."""
        return self.steps * (self.first_s + self.growth_s * (self.steps - 1) / 2)


def add_moments(sums: list[float], stretch: Stretch) -> None:
    """Adds the steps to moment sums, which are in the order of `window.TERMS`.

    Both k and t are lines in i, so every term is a sum of powers of i.
    """
    steps, rows, kv_tokens, first_s, growth_s = stretch
    n, d, k = float(steps), float(rows), float(kv_tokens)
    of_i = n * (n - 1.0) / 2.0
    of_ii = of_i * (2.0 * n - 1.0) / 3.0
    all_k = n * k + d * of_i
    all_t = n * first_s + growth_s * of_i
    sums[0] += n
    sums[2] += n * d
    sums[3] += all_k
    sums[5] += all_t
    sums[11] += n * d * d
    sums[12] += d * all_k
    sums[14] += d * all_t
    sums[15] += n * k * k + 2.0 * k * d * of_i + d * d * of_ii
    sums[17] += k * all_t + d * (first_s * of_i + growth_s * of_ii)
    sums[20] += first_s * (all_t + growth_s * of_i) + growth_s * growth_s * of_ii


def steps_within(limit_s: float, first_s: float, growth_s: float, steps: int) -> int:
    """How many of the steps take no longer than `limit_s`, exactly as each one's time rounds."""
    if first_s + (steps - 1) * growth_s <= limit_s:
        return steps
    if first_s > limit_s:
        return 0
    return bisect_right(range(steps), limit_s, key=lambda i: first_s + i * growth_s)


def buckets_of(
    edges: Sequence[float], first_s: float, growth_s: float, steps: int
) -> list[tuple[int, int]]:
    """How many of the steps fall in which bucket, empty ones left out.

    Args:
        edges: Upper bounds; a step on one belongs to the bucket below it.
        first_s: Time of the first step.
        growth_s: By how much each is longer than the one before.
        steps: How many there are.

    Returns:
        (bucket, steps), rising.
    """
    bucket, below = bisect_left(edges, first_s), 0
    longest_s = first_s + (steps - 1) * growth_s
    found: list[tuple[int, int]] = []
    while bucket < len(edges) and edges[bucket] < longest_s:
        within = steps_within(edges[bucket], first_s, growth_s, steps)
        if within > below:
            found.append((bucket, within - below))
        bucket, below = bucket + 1, within
    found.append((bucket, steps - below))
    return found
