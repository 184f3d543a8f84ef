"""The engines' step times as one model, and the largest budget an ITL target allows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

from paceline_operator.autopilot.plant import fit
from paceline_operator.autopilot.plant.fit import Estimate
from paceline_operator.autopilot.plant.ladder import Ladder
from paceline_operator.autopilot.plant.law import StepLoad
from paceline_operator.autopilot.plant.prior import Prior
from paceline_operator.autopilot.plant.workload import Workload
from paceline_operator.autopilot.vocabulary.memory import Memory

TRUSTED_SD = 0.15
USABLE_SD = 0.50
MOST_RESERVED = 0.25
_Z95 = 1.645


@dataclass(frozen=True, kw_only=True)
class Plant:
    """Step-time laws of both kinds of steps under the present workload.

    Attributes:
        decode: Steps without prompt tokens.
        prefill: Steps with prompt tokens.
        workload: What the steps carry.
    """

    decode: Estimate
    prefill: Estimate
    workload: Workload

    def decode_ms(self, rows: float, kv_tokens: float | None = None) -> float:
        """A step that only decodes."""
        resident = rows * self.kv_per_row if kv_tokens is None else kv_tokens
        return self.decode.law.time_ms(0.0, rows, resident, 0.0)

    def full_ms(self, budget: float, rows: float | None = None) -> float:
        """A step that uses the whole budget, decodes first."""
        return self.prefill.law.time_ms(*self._shares(budget, rows))

    def uncertainty(self, budget: float) -> float:
        """Relative standard deviation of `full_ms`."""
        return self.prefill.relative_sd(self._full(budget, None))

    def decode_trusted_at(self, rows: float) -> bool:
        """Whether the model of decoding is good enough to act on at this many sequences."""
        return self.decode.relative_sd(self._rows(rows, None)) <= TRUSTED_SD

    def trusted_at(self, budget: float) -> bool:
        """Whether the model is good enough to act on at this budget."""
        return self.uncertainty(budget) <= TRUSTED_SD

    @cached_property
    def reserve(self) -> float:
        """Share of a target to keep free for the spread of single steps."""
        return min(MOST_RESERVED, _Z95 * self.prefill.noise_share)

    @cached_property
    def kv_per_row(self) -> float:
        """Resident KV tokens of one decoding sequence."""
        return self.workload.prompt_mean + self.workload.output_mean / 2

    def _rows(self, rows: float, kv_tokens: float | None) -> StepLoad:
        resident = rows * self.kv_per_row if kv_tokens is None else kv_tokens
        return StepLoad(decode_rows=rows, kv_tokens=resident)

    def _full(self, budget: float, rows: float | None) -> StepLoad:
        prefill, decoding, resident, context = self._shares(budget, rows)
        return StepLoad(
            prefill_tokens=prefill,
            decode_rows=decoding,
            kv_tokens=resident,
            chunk_context=context,
        )

    def _shares(self, budget: float, rows: float | None) -> tuple[float, float, float, float]:
        """Full steps at the present 95th percentile of rows and KV, or at given rows."""
        work = self.workload
        decoding = work.rows_p95 if rows is None else rows
        decoding = min(decoding, budget - 1.0)
        prefill = budget - decoding
        resident = work.kv_p95 if rows is None else rows * self.kv_per_row
        return prefill, decoding, resident, prefill * work.context_or_usual


def paced_budget(plant: Plant, step_ms: float, ladder: Ladder) -> int:
    """Tokens that engines put into steps of that length, so much of a prompt in each at least.

    Args:
        plant: The model.
        step_ms: Step time that they keep by themselves.
        ladder: Whose step is the least of a prompt, and whose ceiling bounds the budget.
    """
    low = replace(ladder, floor=min(ladder.step, ladder.ceiling))
    least = ceil(plant.workload.rows_p95) + ladder.step
    fitting = low.largest(lambda budget: plant.full_ms(budget) <= step_ms)
    return min(ladder.ceiling, max(least, fitting or 0))


def build_plant(memory: Memory, prior: Prior, workload: Workload) -> Plant:
    """The model that the evidence in memory supports."""
    decode, prefill = laws(memory, prior)
    return Plant(decode=decode, prefill=prefill, workload=workload)


def laws(memory: Memory, prior: Prior) -> tuple[Estimate, Estimate]:
    """Of steps without and with prompt tokens, by the evidence in memory."""
    spread, is_free = prior.relative_sd, prior.scale_free
    return (
        fit.estimate(memory.decode_fit, fit.DECODE, prior.decode, spread, scale_free=is_free),
        fit.estimate(memory.prefill_fit, fit.PREFILL, prior.prefill, spread, scale_free=is_free),
    )
