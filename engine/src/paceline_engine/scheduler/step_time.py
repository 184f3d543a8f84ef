"""The engine's own step time, fitted while it runs, and the chunk that keeps a target.

A step that holds prefill takes

    T = a + b prefill + c rows + d kv + e (chunk x context)

with decode rows, KV tokens read, and the attention work of chunks. The coefficients are the
recursive least squares estimate with exponential forgetting (Ljung: System Identification,
2nd edition, section 11.2) in its information form: the normal equations fade by a constant
factor a step. Guards, each against a known failure:

- a small part of the information never fades, so that a direction the load does not excite
  cannot make the estimate wander off (estimator wind-up; Astrom and Wittenmark: Adaptive
  Control, 2nd edition, section 11.5);
- no coefficient is negative, so more work never looks cheaper;
- a step far outside the noise is not learned from, unless the next two are as well: then the
  machine has changed and most of the past is dropped;
- a step may hold a quarter more prefill than any that was measured, never more: the law bends
  where weights stop hiding behind memory, and a line drawn from below the bend promises too
  much above it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

from paceline_engine.scheduler.least_squares import solve_positive
from paceline_engine.scheduler.output import SchedulerOutput

KEEP = 0.99
RIDGE = 1e-4
GATE = 4.0
GATE_SHARE = 0.15
REOPEN_AFTER = 3
REOPEN_KEEP = 0.05
MIN_STEPS = 5.0
NOISE_KEEP = 0.95
MARGIN = 1.65  # of the noise: about 95 of 100 steps keep the target
GROWTH = 1.25
_SCALE = (1.0, 256.0, 64.0, 1e4, 1e5)
_SIZE = len(_SCALE)


@dataclass(frozen=True, slots=True)
class StepLoad:
    """What a step holds, in the terms of the law."""

    prefill_tokens: int = 0
    decode_rows: int = 0
    kv_tokens: int = 0
    chunk_context: int = 0

    @classmethod
    def of(cls, step: SchedulerOutput) -> StepLoad:
        """What a decided step holds."""
        return cls(
            step.prefill_tokens, step.decode_rows, step.resident_kv_tokens, step.chunk_context
        )

    def with_chunk(self, start: int, length: int, *, instead_of: int = 0) -> StepLoad:
        """This load with a chunk from position `start`, in place of a shorter one there."""
        end, former_end = start + length, start + instead_of
        return StepLoad(
            self.prefill_tokens + length - instead_of,
            self.decode_rows,
            self.kv_tokens + (end if length else 0) - (former_end if instead_of else 0),
            self.chunk_context + length * end - instead_of * former_end,
        )

    @property
    def scaled(self) -> tuple[float, ...]:
        """Regressors of about the same size."""
        values = (1, self.prefill_tokens, self.decode_rows, self.kv_tokens, self.chunk_context)
        return tuple(value / scale for value, scale in zip(values, _SCALE, strict=True))


class StepTimeModel:
    """Learns from measured steps; predicts; sizes chunks. Times in milliseconds."""

    def __init__(self) -> None:
        self._information = [[0.0] * _SIZE for _ in range(_SIZE)]
        self._target = [0.0] * _SIZE
        self._steps = 0.0
        self._variance = 0.0
        self._surprises = 0
        self._largest = 0
        self._law: list[float] | None = None

    @property
    def steps(self) -> float:
        """Steps behind the estimate, forgotten ones not counted."""
        return self._steps

    @property
    def noise_ms(self) -> float:
        """Spread of one step around its prediction."""
        return sqrt(self._variance)

    def predict_ms(self, load: StepLoad) -> float:
        """Mean time of a step that holds prefill."""
        return sum(a * b for a, b in zip(self._coefficients(), load.scaled, strict=True))

    def observe(self, load: StepLoad, duration_ms: float) -> None:
        """Learns from a measured step; one without prefill says nothing here."""
        if not load.prefill_tokens or not 0 < duration_ms < inf:
            return
        error = duration_ms - self.predict_ms(load)
        if self._is_surprise(error, duration_ms):
            self._surprises += 1
            if self._surprises < REOPEN_AFTER:
                return
            self._fade(REOPEN_KEEP)
            self._variance = 0.0
        elif self._steps >= MIN_STEPS:
            self._variance += (1 - NOISE_KEEP) * (error * error - self._variance)
        self._surprises = 0
        self._learn(load, duration_ms)

    def longest_chunk(self, load: StepLoad, start: int, target_ms: float) -> int:
        """Tokens of a chunk from position `start` that still keep the target.

        Args:
            load: What the step holds without it.
            start: Tokens of the request that are computed.
            target_ms: Step time to keep, 95 times in 100.
        """
        _, per_token, _, per_kv, per_work = (
            value / scale for value, scale in zip(self._coefficients(), _SCALE, strict=True)
        )
        slack = target_ms - MARGIN * self.noise_ms - self.predict_ms(load) - per_kv * start
        most = max(int(GROWTH * self._largest), self._largest + 1) - load.prefill_tokens
        if slack <= 0 or most <= 0 or not self._largest:
            return 0
        return int(
            min(_positive_root(per_work, per_token + per_kv + per_work * start, slack), most)
        )

    def _coefficients(self) -> list[float]:
        if self._law is None:
            held = [
                [value + RIDGE * (row == column) for column, value in enumerate(line)]
                for row, line in enumerate(self._information)
            ]
            self._law = solve_positive(held, self._target)
        return self._law

    def _is_surprise(self, error: float, duration_ms: float) -> bool:
        if self._steps < MIN_STEPS:
            return False
        return abs(error) > GATE * self.noise_ms + GATE_SHARE * duration_ms

    def _learn(self, load: StepLoad, duration_ms: float) -> None:
        self._fade(KEEP)
        scaled = load.scaled
        for row, value in enumerate(scaled):
            self._target[row] += value * duration_ms
            line = self._information[row]
            for column, other in enumerate(scaled):
                line[column] += value * other
        self._steps += 1
        self._largest = max(self._largest, load.prefill_tokens)
        self._law = None

    def _fade(self, keep: float) -> None:
        self._information = [[keep * value for value in line] for line in self._information]
        self._target = [keep * value for value in self._target]
        self._steps *= keep


def _positive_root(square: float, linear: float, constant: float) -> float:
    """Largest x with square x^2 + linear x <= constant, where nothing is negative."""
    if square > 0:
        return (sqrt(linear * linear + 4 * square * constant) - linear) / (2 * square)
    return constant / linear if linear > 0 else inf
