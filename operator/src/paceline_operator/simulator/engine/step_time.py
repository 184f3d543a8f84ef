"""An engine's own estimate of its step time, and the chunk that keeps a target.

A step that holds prefill takes T = a + b prefill + c rows + d kv + e (chunk x context), with
coefficients from least squares whose past fades, none of them negative. A step far outside the
noise is not learned from, unless the next two are as well. A step may hold a quarter more
prefill than any that was measured.
"""

from __future__ import annotations

from collections import deque
from math import inf, sqrt

from paceline_operator.simulator.engine.least_squares import solve_positive

KEEP = 0.99
RIDGE = 1e-4
GATE = 4.0
GATE_SHARE = 0.15
REOPEN_AFTER = 3
REOPEN_KEEP = 0.05
MIN_STEPS = 5.0
NOISE_KEEP = 0.95
MARGIN = 1.65
GROWTH = 1.25
SCALE = (1.0, 256.0, 64.0, 1e4, 1e5)
_SIZE = len(SCALE)
REMEMBERED = 2048
"""Steps that are kept until somebody asks; of the oldest of them 1e-9 is left by then."""


class StepLoad:
    """What a step holds; never changed.

    Attributes:
        prefill_tokens: Tokens of prompts.
        decode_rows: Sequences that get their next token.
        kv_tokens: Tokens that its attention reads, its own included.
        chunk_context: Sum over chunks of length x end.
    """

    __slots__ = ("chunk_context", "decode_rows", "kv_tokens", "prefill_tokens")

    def __init__(
        self,
        prefill_tokens: int = 0,
        decode_rows: int = 0,
        kv_tokens: int = 0,
        chunk_context: int = 0,
    ) -> None:
        self.prefill_tokens = prefill_tokens
        self.decode_rows = decode_rows
        self.kv_tokens = kv_tokens
        self.chunk_context = chunk_context

    def with_chunk(self, start: int, length: int, instead_of: int) -> StepLoad:
        """This load with a chunk from position `start`, in place of a shorter one there."""
        end, former_end = start + length, start + instead_of
        return StepLoad(
            self.prefill_tokens + length - instead_of,
            self.decode_rows,
            self.kv_tokens + (end if length else 0) - (former_end if instead_of else 0),
            self.chunk_context + length * end - instead_of * former_end,
        )


class StepTimeModel:
    """Learns from steps; predicts; sizes chunks. Times in milliseconds.

    Attributes:
        largest: Most prefill tokens of any step.
    """

    def __init__(self) -> None:
        # Symmetric: rows down to the diagonal.
        self._information = [[0.0] * (row + 1) for row in range(_SIZE)]
        self._target = [0.0] * _SIZE
        self._steps = 0.0
        self._variance = 0.0
        self._surprises = 0
        self.largest = 0
        self._law: list[float] | None = None

    def observe(self, load: StepLoad, duration_ms: float) -> None:
        """Learns from a step that held prefill."""
        error = duration_ms - self._predict_ms(_scaled(load))
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
        """Tokens of a chunk from position `start` that still keep the target beside a load."""
        law = self._coefficients()
        per_token, per_kv, per_work = law[1] / SCALE[1], law[3] / SCALE[3], law[4] / SCALE[4]
        noise_ms = sqrt(self._variance)
        slack = target_ms - MARGIN * noise_ms - self._predict_ms(_scaled(load)) - per_kv * start
        most = max(int(GROWTH * self.largest), self.largest + 1) - load.prefill_tokens
        if slack <= 0 or most <= 0 or not self.largest:
            return 0
        return int(
            min(_positive_root(per_work, per_token + per_kv + per_work * start, slack), most)
        )

    def _predict_ms(self, scaled: list[float]) -> float:
        law, total = self._coefficients(), 0.0
        for index in range(_SIZE):
            total += law[index] * scaled[index]
        return total

    def _coefficients(self) -> list[float]:
        if self._law is None:
            held = [line.copy() for line in self._information]
            for index, line in enumerate(held):
                line[index] += RIDGE
            self._law = solve_positive(held, self._target)
        return self._law

    def _is_surprise(self, error: float, duration_ms: float) -> bool:
        if self._steps < MIN_STEPS:
            return False
        return abs(error) > GATE * sqrt(self._variance) + GATE_SHARE * duration_ms

    def _learn(self, load: StepLoad, duration_ms: float) -> None:
        self._fade(KEEP)
        scaled, target = _scaled(load), self._target
        for row, line in enumerate(self._information):
            value = scaled[row]
            target[row] += value * duration_ms
            for column in range(row + 1):
                line[column] += value * scaled[column]
        self._steps += 1
        self.largest = max(self.largest, load.prefill_tokens)
        self._law = None

    def _fade(self, keep: float) -> None:
        target = self._target
        for row, line in enumerate(self._information):
            target[row] *= keep
            for column in range(row + 1):
                line[column] *= keep
        self._steps *= keep


class StepTimeTarget:
    """The step time to keep, and the estimate by which it is kept.

    A real engine learns from every step. Here steps are kept in mind until a chunk is to be sized:
    to learn costs more than all else in a step, and for nothing where no target is in force.

    Args:
        target_ms: At the start.
        least: Prefill tokens a step may hold whatever the estimate says.

    Attributes:
        target_ms: What to keep; 0 is none.
    """

    def __init__(self, target_ms: float, least: int) -> None:
        self.target_ms = max(0.0, target_ms)
        self._least = least
        self._model = StepTimeModel()
        self._unlearned: deque[tuple[StepLoad, float]] = deque(maxlen=REMEMBERED)

    def observe(self, load: StepLoad, duration_ms: float) -> None:
        """A step with prefill has run."""
        unlearned = self._unlearned
        if len(unlearned) == REMEMBERED:
            self._model.largest = max(self._model.largest, unlearned[0][0].prefill_tokens)
        unlearned.append((load, duration_ms))

    def longest(self, load: StepLoad, start: int) -> int:
        """Tokens that a chunk from position `start` may have beside a load."""
        model, unlearned = self._model, self._unlearned
        while unlearned:
            model.observe(*unlearned.popleft())
        fitting = model.longest_chunk(load, start, self.target_ms)
        return max(fitting, self._least - load.prefill_tokens)


def _scaled(load: StepLoad) -> list[float]:
    """Regressors of about the same size."""
    return [
        1.0 / SCALE[0],
        load.prefill_tokens / SCALE[1],
        load.decode_rows / SCALE[2],
        load.kv_tokens / SCALE[3],
        load.chunk_context / SCALE[4],
    ]


def _positive_root(square: float, linear: float, constant: float) -> float:
    """Largest x with square x^2 + linear x <= constant, where nothing is negative."""
    if square > 0:
        return (sqrt(linear * linear + 4 * square * constant) - linear) / (2 * square)
    return constant / linear if linear > 0 else inf
