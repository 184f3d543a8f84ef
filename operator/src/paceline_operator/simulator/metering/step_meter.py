"""What an engine's steps add up to: moments, times, and the gaps they make between tokens.

This runs at every step of every engine, so a step costs one look-up and some additions; all
else waits until somebody asks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from paceline_operator.autopilot.vocabulary.window import TERMS, Latency, Moments, StepClass
from paceline_operator.simulator.metering.edges import EDGES
from paceline_operator.simulator.metering.grid import Grid
from paceline_operator.simulator.metering.stretch import Stretch, add_moments, buckets_of

STEP_EDGES = EDGES[Latency.STEP]
ITL_EDGES = EDGES[Latency.ITL]


@dataclass(frozen=True, slots=True)
class Times:
    """Many times, counted by the buckets of a grid.

    Attributes:
        counts: In each bucket, the open last one included.
        seconds: All together.
    """

    counts: list[int]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTotals:
    """Steps of some time.

    Attributes:
        grid: Buckets of the times below.
        moments: By step class; classes without steps are left out.
        steps: Step times.
        interactive: Gaps of interactive requests.
        batch: Gaps of batch requests.
        at_budget: Steps that used the whole token budget.
    """

    grid: Grid
    moments: Mapping[StepClass, Moments]
    steps: Times
    interactive: Times
    batch: Times
    at_budget: int


class StepMeter:
    """Steps since the last `take`.

    Args:
        limits_s: Gaps up to each of them can be told exactly.
    """

    __slots__ = (
        "_at_budget", "_batch", "_batch_s", "_decode_only", "_edges", "_grid", "_interactive",
        "_interactive_s", "_mixed", "_prefill_only", "_steps",
    )  # fmt: skip

    def __init__(self, limits_s: Iterable[float]) -> None:
        self._clear(_grid(limits_s))

    def step(  # noqa: PLR0913  (all that an engine tells of a step)
        self,
        *,
        end_s: float,
        seconds: float,
        prefill_tokens: int,
        interactive_rows: int,
        batch_rows: int,
        kv_tokens: int,
        chunk_context: int,
        at_budget: bool,
    ) -> None:
        """See `Sink`."""
        rows = interactive_rows + batch_rows
        sums = self._mixed if rows else self._prefill_only
        p, d, k, x, t = (
            float(prefill_tokens),
            float(rows),
            float(kv_tokens),
            float(chunk_context),
            seconds,
        )
        sums[0] += 1.0
        sums[1] += p
        sums[2] += d
        sums[3] += k
        sums[4] += x
        sums[5] += t
        sums[6] += p * p
        sums[7] += p * d
        sums[8] += p * k
        sums[9] += p * x
        sums[10] += p * t
        sums[11] += d * d
        sums[12] += d * k
        sums[13] += d * x
        sums[14] += d * t
        sums[15] += k * k
        sums[16] += k * x
        sums[17] += k * t
        sums[18] += x * x
        sums[19] += x * t
        sums[20] += t * t
        bucket = bisect_left(self._edges, seconds)
        self._steps[bucket] += 1
        if interactive_rows:
            self._interactive[bucket] += interactive_rows
            self._interactive_s += interactive_rows * seconds
        if batch_rows:
            self._batch[bucket] += batch_rows
            self._batch_s += batch_rows * seconds
        if at_budget:
            self._at_budget += 1

    def stretch(  # noqa: PLR0913  (likewise)
        self,
        *,
        start_s: float,
        steps: int,
        interactive_rows: int,
        batch_rows: int,
        kv_tokens: int,
        first_s: float,
        growth_s: float,
        at_budget: bool,
    ) -> None:
        """See `Sink`."""
        stretch = Stretch(steps, interactive_rows + batch_rows, kv_tokens, first_s, growth_s)
        add_moments(self._decode_only, stretch)
        seconds = stretch.seconds
        self._interactive_s += interactive_rows * seconds
        self._batch_s += batch_rows * seconds
        for bucket, count in buckets_of(self._edges, first_s, growth_s, steps):
            self._steps[bucket] += count
            self._interactive[bucket] += count * interactive_rows
            self._batch[bucket] += count * batch_rows
        if at_budget:
            self._at_budget += steps

    def accepted(self, *, tokens: int, interactive_rows: int, batch_rows: int) -> None:
        """See `Sink`."""
        self._interactive[0] += tokens * interactive_rows
        self._batch[0] += tokens * batch_rows

    def take(self) -> StepTotals:
        """What was added, which is then forgotten."""
        sums = {
            StepClass.DECODE_ONLY: self._decode_only,
            StepClass.MIXED: self._mixed,
            StepClass.PREFILL_ONLY: self._prefill_only,
        }
        taken = StepTotals(
            grid=self._grid,
            moments={kind: Moments(tuple(each)) for kind, each in sums.items() if each[0]},
            steps=Times(self._steps, sum(each[5] for each in sums.values())),
            interactive=Times(self._interactive, self._interactive_s),
            batch=Times(self._batch, self._batch_s),
            at_budget=self._at_budget,
        )
        self._clear(self._grid)
        return taken

    def regrid(self, limits_s: Iterable[float]) -> None:
        """Other limits are in force; what was added before must have been taken."""
        self._clear(_grid(limits_s))

    def _clear(self, grid: Grid) -> None:
        self._grid, self._edges = grid, grid.edges
        self._decode_only = [0.0] * len(TERMS)
        self._mixed = [0.0] * len(TERMS)
        self._prefill_only = [0.0] * len(TERMS)
        self._steps, self._interactive, self._batch = grid.zeros(), grid.zeros(), grid.zeros()
        self._interactive_s = self._batch_s = 0.0
        self._at_budget = 0


def _grid(limits_s: Iterable[float]) -> Grid:
    return Grid((STEP_EDGES, ITL_EDGES, tuple(limits_s)))
