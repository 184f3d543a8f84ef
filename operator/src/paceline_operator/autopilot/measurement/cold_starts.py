"""How long a replica takes to serve, by the last that were ordered."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low

MOST_TIMES_USUAL = 3.0
"""A pod that waited for a node, or for an image, says nothing of the others."""


def usual_s(measured_s: Sequence[float], prior_s: float) -> float:
    """As most are.

    Args:
        measured_s: The last cold starts.
        prior_s: What is assumed while there is none, and that a single one is held against.
    """
    return median_low(_credible(measured_s, prior_s))


def longest_s(measured_s: Sequence[float], prior_s: float) -> float:
    """The longest that has to be expected: of the last ones, but for what is far from usual.

    Args:
        measured_s: The last cold starts.
        prior_s: See `usual_s`.
    """
    found = _credible(measured_s, prior_s)
    return min(max(found), MOST_TIMES_USUAL * median_low(found))


def _credible(measured_s: Sequence[float], prior_s: float) -> Sequence[float]:
    if len(measured_s) > 1:
        return measured_s
    return [min(each, MOST_TIMES_USUAL * prior_s) for each in measured_s] or [prior_s]
