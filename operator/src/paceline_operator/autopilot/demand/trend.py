"""A line through what was offered, carried on as far as it is proven."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt

LINE_SIGMAS = 3.0
"""Scatter of the parts about the line beyond what chance explains, and it is none."""
_LEAST_LENGTH_S = 60.0


@dataclass(frozen=True, slots=True)
class Part:
    """What was offered over a stretch of time.

    Attributes:
        start_s: Its beginning.
        end_s: Its end.
        requests: Requests of the mean size that came.
    """

    start_s: float
    end_s: float
    requests: float

    @property
    def length_s(self) -> float:
        """How long it is, seconds."""
        return self.end_s - self.start_s

    @property
    def middle_s(self) -> float:
        """Its middle."""
        return (self.start_s + self.end_s) / 2


def carried_on(
    parts: Sequence[Part], dispersion: float, *, until_s: float, part_s: float, sigmas: float
) -> float:
    """Requests per second that a line through the parts proves for a time ahead; 0 for none.

    Least squares over time, a part weighing as much as it is long: the mean and the slope are
    independent, so the variance of the value ahead is the sum of theirs. What is no line is not
    carried on: where chance does not explain how far parts lie off it (the chi-squared test).

    Args:
        parts: Oldest first.
        dispersion: Variance of a count of requests over its mean.
        until_s: The time ahead.
        part_s: Length of the parts whose scatter is looked at.
        sigmas: Standard deviations that are taken off.
    """
    length_s = sum(part.length_s for part in parts)
    if length_s < _LEAST_LENGTH_S or len(parts) < 2:
        return 0.0
    mean = _rate(parts)
    middle_s = sum(part.middle_s * part.length_s for part in parts) / length_s
    moment = sum(part.length_s * (part.middle_s - middle_s) ** 2 for part in parts)
    slope = sum(part.requests * (part.middle_s - middle_s) for part in parts) / moment
    cuts = [_whole(cut) for cut in _cut(parts, part_s)]
    line = [mean + slope * (cut.middle_s - middle_s) for cut in cuts]
    off = _off(cuts, line, dispersion)
    degrees = max(1, len(cuts) - 2)
    if off > degrees + LINE_SIGMAS * sqrt(2.0 * degrees):
        return 0.0
    ahead_s = until_s - middle_s
    variance = dispersion * mean * (1.0 / length_s + ahead_s**2 / moment)
    return mean + slope * ahead_s - sigmas * sqrt(variance)


def _off(cuts: Sequence[Part], rates: Sequence[float], dispersion: float) -> float:
    """Squared distances between parts and rates, in variances of chance."""
    squares = 0.0
    for cut, rate in zip(cuts, rates, strict=True):
        expected = max(rate, 1.0 / cut.length_s)
        squares += (cut.requests / cut.length_s - expected) ** 2 * cut.length_s / expected
    return squares / dispersion


def _whole(parts: Sequence[Part]) -> Part:
    """One part in the place of neighbours, in the middle of what was measured."""
    length_s = sum(part.length_s for part in parts)
    middle_s = sum(part.middle_s * part.length_s for part in parts) / length_s
    requests = sum(part.requests for part in parts)
    return Part(middle_s - length_s / 2, middle_s + length_s / 2, requests)


def _cut(parts: Iterable[Part], part_s: float) -> list[list[Part]]:
    """Neighbours put together to parts that are so long at least; what is left is one more."""
    found: list[list[Part]] = [[]]
    for part in parts:
        if sum(each.length_s for each in found[-1]) >= part_s - 1e-6:
            found.append([])
        found[-1].append(part)
    return found


def _rate(parts: Iterable[Part]) -> float:
    found = list(parts)
    requests = sum(part.requests for part in found)
    length_s = sum(part.length_s for part in found)
    return requests / length_s
