"""When requests arrive: a process of rate one, stretched to the rates of a load."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from paceline_operator.simulator.generator import Generator
from paceline_operator.simulator.loads.rates import Segment


def points(generator: Generator, dispersion: float = 1.0) -> Iterator[float]:
    """Ascending points of a renewal process of rate one.

    Args:
        generator: Chance.
        dispersion: Variance over mean of the number of points in a long time: 1 is a Poisson
            process, more is clustered, less is even. Gaps are gamma with this variance.
    """
    at = 0.0
    while True:
        if dispersion == 1.0:
            at += generator.expovariate(1.0)
        else:
            at += generator.gammavariate(1.0 / dispersion, dispersion)
        yield at


def arrivals(segments: Iterable[Segment], unit_points: Iterator[float]) -> Iterator[float]:
    """Times in seconds, ascending: the points mapped through the inverse of the expected count.

    Exactly an inhomogeneous Poisson process where the points are a Poisson process.
    """
    begin_s, begin, point = 0.0, 0.0, next(unit_points)
    for segment in segments:
        end = begin + segment.expected
        while point < end:
            yield begin_s + segment.time_of(point - begin)
            point = next(unit_points)
        begin_s, begin = begin_s + segment.duration_s, end
