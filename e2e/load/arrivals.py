"""When requests arrive: rates over time, and arrival times drawn from them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of load whose rate changes linearly.

    Attributes:
        phase: Label of its requests.
        duration_s: Length.
        rate_from: Requests per second at its start.
        rate_to: Requests per second at its end.
    """

    phase: str
    duration_s: float
    rate_from: float
    rate_to: float

    @property
    def expected(self) -> float:
        """Requests it brings on average."""
        return self.duration_s * (self.rate_from + self.rate_to) / 2

    def time_of(self, mass: float) -> float:
        """Seconds into the segment by which `mass` requests are expected.

        Solves `rate_from t + slope t^2 / 2 = mass` in the form that stays exact for a
        slope of zero.
        """
        if mass <= 0:
            return 0.0
        slope = (self.rate_to - self.rate_from) / self.duration_s
        root = math.sqrt(max(0.0, self.rate_from**2 + 2 * slope * mass))
        return 2 * mass / (self.rate_from + root)


@dataclass(frozen=True, slots=True)
class Arrival:
    """One arrival: seconds from the start, and the phase it falls in."""

    offset_s: float
    phase: str


def steady(rate: float, duration_s: float) -> tuple[Segment, ...]:
    """One rate all the time."""
    return (Segment(phase="steady", duration_s=duration_s, rate_from=rate, rate_to=rate),)


def step(
    rate: float, factor: float, before_s: float, duration_s: float, after_s: float
) -> tuple[Segment, ...]:
    """`rate`, then `factor` times as much for `duration_s`, then `rate` again."""
    stages = (
        ("before", before_s, rate),
        ("step", duration_s, rate * factor),
        ("after", after_s, rate),
    )
    return tuple(
        Segment(phase=phase, duration_s=seconds, rate_from=level, rate_to=level)
        for phase, seconds, level in stages
        if seconds > 0
    )


def ramp(rate: float, factor: float, duration_s: float) -> tuple[Segment, ...]:
    """From `rate` to `factor` times as much, linearly."""
    return (Segment(phase="ramp", duration_s=duration_s, rate_from=rate, rate_to=rate * factor),)


def burst(
    rate: float, factor: float, duration_s: float, every_s: float, length_s: float
) -> tuple[Segment, ...]:
    """`rate`, and in each `every_s` seconds a burst of `length_s` at `factor` times as much.

    A period is quiet first and ends with its burst; the last one is cut at `duration_s`.
    """
    segments: list[Segment] = []
    stages = itertools.cycle(
        (("quiet", every_s - length_s, rate), ("burst", length_s, rate * factor))
    )
    left_s = duration_s
    while left_s > 1e-9:
        phase, seconds, level = next(stages)
        seconds = min(seconds, left_s)
        left_s -= seconds
        segments.append(Segment(phase=phase, duration_s=seconds, rate_from=level, rate_to=level))
    return tuple(segments)


def stages(rate: float, parts: Sequence[tuple[str, float, float]]) -> tuple[Segment, ...]:
    """One level after the other.

    Args:
        rate: Requests per second of a level of 1.
        parts: Phase, level and seconds of each.
    """
    return tuple(
        Segment(phase=phase, duration_s=seconds, rate_from=rate * level, rate_to=rate * level)
        for phase, level, seconds in parts
    )


def poisson(rng: Random) -> Iterator[float]:
    """Points of a Poisson process of rate one."""
    at = 0.0
    while True:
        at += rng.expovariate(1.0)
        yield at


def even() -> Iterator[float]:
    """Evenly spaced points of rate one, the first at one half."""
    return itertools.count(0.5)


def arrivals(segments: Sequence[Segment], points: Iterator[float]) -> Iterator[Arrival]:
    """Maps a process of rate one through the inverse of the cumulative rate.

    Gives an inhomogeneous Poisson process exactly where `points` are a Poisson process.

    Args:
        segments: The load, in order.
        points: Ascending, of rate one.

    Yields:
        Arrivals in ascending order, all before the end of the last segment.
    """
    starts_s = itertools.accumulate((s.duration_s for s in segments), initial=0.0)
    mass = next(points)
    done = 0.0
    for segment, start_s in zip(segments, starts_s, strict=False):
        end = done + segment.expected
        while mass < end:
            yield Arrival(start_s + segment.time_of(mass - done), segment.phase)
            mass = next(points)
        done = end
