"""Dynamo's regression of step time, over samples that no single operating point can crowd out.

Rule: step seconds = w0 + w1 prompt tokens + w2 decode KV tokens, least squares over at most 64
samples; the plane is cut into 4 x 4 cells between the smallest and largest values seen, and the
oldest sample of the fullest cell goes first. Five samples at least; a negative slope voids it.
Source: NVIDIA Dynamo, `planner/core/perf_model/base.py` and `agg.py`; defaults in
`planner/config/defaults.py`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

MOST_SAMPLES = 64
CELLS_PER_AXIS = 4
LEAST_SAMPLES = 5
LEAST_SECONDS = 1e-6
_RIDGE = 1e-9


@dataclass(frozen=True, slots=True)
class StepSample:
    """One step, or the mean of like ones: the law is linear, so means lie on it."""

    prefill_tokens: float
    kv_tokens: float
    seconds: float


@dataclass(frozen=True, slots=True)
class StepLine:
    """The fitted plane."""

    base_s: float
    per_prefill_token_s: float
    per_kv_token_s: float

    def seconds(self, prefill_tokens: float, kv_tokens: float) -> float:
        """Predicted time of a step."""
        slope_s = self.per_prefill_token_s * prefill_tokens + self.per_kv_token_s * kv_tokens
        return max(LEAST_SECONDS, self.base_s + slope_s)


@dataclass(frozen=True, slots=True)
class Axis:
    """Smallest and largest value ever seen of a variable."""

    low: float = float("inf")
    high: float = float("-inf")

    def with_value(self, value: float) -> Axis:
        """Wide enough for one more value."""
        return Axis(min(self.low, value), max(self.high, value))

    def part(self, value: float) -> int:
        """Which of the equal parts a value lies in."""
        if self.high <= self.low:
            return 0
        share = (value - self.low) / (self.high - self.low)
        return min(CELLS_PER_AXIS - 1, int(share * CELLS_PER_AXIS))


class StepRegression:
    """The samples and the plane through them."""

    def __init__(self) -> None:
        self._samples: list[StepSample] = []
        self._prefill, self._kv = Axis(), Axis()
        self._line: StepLine | None = None
        self._stale = False

    def add(self, sample: StepSample) -> None:
        """Takes a sample in; one of the fullest cell leaves where there are too many."""
        self._samples.append(sample)
        self._prefill = self._prefill.with_value(sample.prefill_tokens)
        self._kv = self._kv.with_value(sample.kv_tokens)
        self._stale = True
        if len(self._samples) > MOST_SAMPLES:
            del self._samples[self._oldest_of_the_fullest()]

    @property
    def line(self) -> StepLine | None:
        """The plane; None with too few samples or a negative slope."""
        if self._stale:
            self._line, self._stale = fitted(self._samples), False
        return self._line

    def _oldest_of_the_fullest(self) -> int:
        cells = [self._cell(sample) for sample in self._samples]
        fullest = Counter(cells).most_common(1)[0][0]
        return cells.index(fullest)

    def _cell(self, sample: StepSample) -> tuple[int, int]:
        return self._prefill.part(sample.prefill_tokens), self._kv.part(sample.kv_tokens)


def fitted(samples: list[StepSample]) -> StepLine | None:
    """Least squares; a variable that never changes has no slope."""
    count = len(samples)
    if count < LEAST_SAMPLES:
        return None
    prefill = [s.prefill_tokens for s in samples]
    kv = [s.kv_tokens for s in samples]
    seconds = [s.seconds for s in samples]
    middle_p, middle_k, middle_t = (sum(v) / count for v in (prefill, kv, seconds))
    p, k, t = _centred(prefill, middle_p), _centred(kv, middle_k), _centred(seconds, middle_t)
    by_prefill, by_kv = _slopes(p, k, t)
    if by_prefill < 0 or by_kv < 0:
        return None
    return StepLine(middle_t - by_prefill * middle_p - by_kv * middle_k, by_prefill, by_kv)


def _centred(values: list[float], middle: float) -> list[float]:
    return [value - middle for value in values]


def _dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _slopes(p: list[float], k: list[float], t: list[float]) -> tuple[float, float]:
    """Of t on p and k; the least ones where p and k move together."""
    pp, kk = _dot(p, p), _dot(k, k)
    if not pp or not kk:
        return (_dot(p, t) / pp if pp else 0.0, _dot(k, t) / kk if kk else 0.0)
    together = _dot(p, k) / (pp * kk) ** 0.5
    on_p, on_k = _dot(p, t) / pp**0.5, _dot(k, t) / kk**0.5
    own = 1.0 + _RIDGE
    scale = own * own - together * together
    return (
        (own * on_p - together * on_k) / scale / pp**0.5,
        (own * on_k - together * on_p) / scale / kk**0.5,
    )
