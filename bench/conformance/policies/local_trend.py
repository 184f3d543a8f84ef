"""Dynamo's Kalman predictor of the next interval: a level and its trend.

Source: NVIDIA Dynamo, `planner/core/load/predictors.py`; `kalman_q_level` 1, `kalman_q_trend`
0.1, `kalman_r` 10. Its default, auto-ARIMA, needs a statistics library that is not here.
"""

from __future__ import annotations

_LEVEL_NOISE = 1.0
_TREND_NOISE = 0.1
_READING_NOISE = 10.0
_UNKNOWN = 1000.0


class LocalTrend:
    """One series; leading zeros are no readings."""

    def __init__(self) -> None:
        self._level = 0.0
        self._trend = 0.0
        self._spread = (_UNKNOWN, 0.0, _UNKNOWN)
        self._started = False
        self._ahead = False

    def add(self, value: float) -> None:
        """Takes the reading of an interval in."""
        if not self._started:
            self._level, self._started = value, value != 0
            return
        self._advance()
        self._ahead = False
        a, b, c = self._spread
        gain_level, gain_trend = a / (a + _READING_NOISE), b / (a + _READING_NOISE)
        surprise = value - self._level
        self._level += gain_level * surprise
        self._trend += gain_trend * surprise
        self._spread = (a * (1 - gain_level), b * (1 - gain_level), c - gain_trend * b)

    def next(self) -> float:
        """The next interval's reading as expected; 0 before the first."""
        if self._started:
            self._advance()
        return max(0.0, self._level)

    def _advance(self) -> None:
        """One interval ahead, once between two readings."""
        if self._ahead:
            return
        self._level += self._trend
        a, b, c = self._spread
        self._spread = (a + 2 * b + c + _LEVEL_NOISE, b + c, c + _TREND_NOISE)
        self._ahead = True
