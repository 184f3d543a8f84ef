"""Requests per second over time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from paceline_operator.simulator.generator import Generator


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of time in which the rate changes linearly.

    Attributes:
        duration_s: Length.
        from_rps: Rate at its start.
        to_rps: Rate at its end.
    """

    duration_s: float
    from_rps: float
    to_rps: float

    @property
    def expected(self) -> float:
        """Requests it brings on average."""
        return self.duration_s * (self.from_rps + self.to_rps) / 2

    def time_of(self, requests: float) -> float:
        """Seconds into the segment by which so many requests are expected.

        Solves `from_rps t + slope t^2 / 2 = requests` in the form that stays exact where the
        slope is zero, in units of the higher rate so that no square becomes nothing.
        """
        if requests <= 0:
            return 0.0
        peak_rps = max(self.from_rps, self.to_rps)
        start, end, wanted_s = self.from_rps / peak_rps, self.to_rps / peak_rps, requests / peak_rps
        slope = (end - start) / self.duration_s
        root = math.sqrt(max(0.0, start**2 + 2 * slope * wanted_s))
        if start + root == 0.0:  # it begins with nothing, and the square has become nothing too
            return math.sqrt(2 * wanted_s / slope)
        return 2 * wanted_s / (start + root)


class Rates(Protocol):
    """A shape of load over time."""

    @property
    def duration_s(self) -> float:
        """Its length."""

    def segments(self, generator: Generator) -> Iterable[Segment]:
        """Its stretches, one after the other; chance where there is noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """One rate all the time."""

    rps: float
    duration_s: float

    def segments(self, generator: Generator) -> Iterable[Segment]:
        """One."""
        return (Segment(self.duration_s, self.rps, self.rps),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piecewise:
    """Rates that are written out."""

    parts: tuple[Segment, ...]

    @property
    def duration_s(self) -> float:
        """Sum of the parts."""
        return sum(part.duration_s for part in self.parts)

    def segments(self, generator: Generator) -> Iterable[Segment]:
        """The parts."""
        return self.parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A rate, all at once `factor` times as much, and all at once the rate again."""

    rps: float
    factor: float = 3.0
    before_s: float
    step_s: float
    after_s: float

    @property
    def duration_s(self) -> float:
        """All three stretches."""
        return self.before_s + self.step_s + self.after_s

    def segments(self, generator: Generator) -> Iterable[Segment]:
        """Three."""
        high_rps = self.rps * self.factor
        return (
            Segment(self.before_s, self.rps, self.rps),
            Segment(self.step_s, high_rps, high_rps),
            Segment(self.after_s, self.rps, self.rps),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ramp:
    """A rate that rises linearly to `factor` times as much, stays, and falls as it rose."""

    rps: float
    factor: float = 4.0
    before_s: float
    ramp_s: float
    top_s: float
    after_s: float

    @property
    def duration_s(self) -> float:
        """All stretches, both ramps included."""
        return self.before_s + 2 * self.ramp_s + self.top_s + self.after_s

    def segments(self, generator: Generator) -> Iterable[Segment]:
        """Five."""
        high_rps = self.rps * self.factor
        return (
            Segment(self.before_s, self.rps, self.rps),
            Segment(self.ramp_s, self.rps, high_rps),
            Segment(self.top_s, high_rps, high_rps),
            Segment(self.ramp_s, high_rps, self.rps),
            Segment(self.after_s, self.rps, self.rps),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """A rate, and in each `every_s` a burst of `burst_s` at `factor` times as much.

    A period is quiet first and ends with its burst.
    """

    rps: float
    factor: float = 4.0
    every_s: float
    burst_s: float
    bursts: int

    @property
    def duration_s(self) -> float:
        """All periods."""
        return self.every_s * self.bursts

    def segments(self, generator: Generator) -> Iterable[Segment]:
        """Two a period."""
        quiet = Segment(self.every_s - self.burst_s, self.rps, self.rps)
        high_rps = self.rps * self.factor
        return (quiet, Segment(self.burst_s, high_rps, high_rps)) * self.bursts


@dataclass(frozen=True, slots=True, kw_only=True)
class OnOff:
    """A rate, then nothing at all, and so on; it ends with the rate."""

    rps: float
    on_s: float
    off_s: float = 900.0
    pauses: int = 1

    @property
    def duration_s(self) -> float:
        """All stretches."""
        return self.on_s * (self.pauses + 1) + self.off_s * self.pauses

    def segments(self, generator: Generator) -> Iterable[Segment]:
        """Two a pause and the last one."""
        busy, idle = Segment(self.on_s, self.rps, self.rps), Segment(self.off_s, 0.0, 0.0)
        return (busy, idle) * self.pauses + (busy,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diurnal:
    """Days of a sine, each from trough to trough, with noise.

    Attributes:
        mean_rps: Over a day.
        swing: How far peak and trough lie from the mean, as a share of it.
        day_s: Length of a day: a compressed one.
        days: How many.
        noise: Standard deviation of the logarithm of a factor on the rate, whose mean is 1.
        noise_s: Between one drawn factor and the next; the rate is linear between them.
    """

    mean_rps: float
    swing: float = 0.6
    day_s: float
    days: int = 1
    noise: float = 0.1
    noise_s: float = 60.0

    @property
    def duration_s(self) -> float:
        """All days."""
        return self.day_s * self.days

    def segments(self, generator: Generator) -> Iterator[Segment]:
        """One from each drawn factor to the next."""
        parts = max(1, round(self.duration_s / self.noise_s))
        length_s = self.duration_s / parts
        from_rps = self._rps(0.0, generator)
        for part in range(1, parts + 1):
            to_rps = self._rps(part * length_s, generator)
            yield Segment(length_s, from_rps, to_rps)
            from_rps = to_rps

    def _rps(self, at_s: float, generator: Generator) -> float:
        tide = 1.0 - self.swing * math.cos(2 * math.pi * at_s / self.day_s)
        factor = math.exp(self.noise * generator.gauss(0.0, 1.0) - self.noise**2 / 2)
        return self.mean_rps * tide * factor
