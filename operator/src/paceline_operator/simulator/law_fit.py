"""The step-time law of an engine whose steps were measured.

Steps without prompt tokens give what rows and resident KV cost, by the autopilot's own fit.
What prompt tokens cost on top, and their context, then follows from the steps with prompts: so
the law is right where an engine spends most of its steps, however long those with prompts are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

from paceline_operator.autopilot.plant import fit
from paceline_operator.autopilot.plant.linear import solve_non_negative
from paceline_operator.autopilot.plant.prior import GENERIC
from paceline_operator.autopilot.vocabulary.memory import FitMemory
from paceline_operator.autopilot.vocabulary.window import Moments, StepClass, total_moments
from paceline_operator.simulator.law import StepLaw

LEAST_STEPS = 30
_TERMS = {
    "n": "base_ms",
    "p": "per_prefill_token_ms",
    "d": "per_decode_row_ms",
    "k": "per_kv_token_ms",
    "x": "per_chunk_context_ms",
}


class TooFewStepsError(ValueError):
    """There is too little to go by; the text is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LawFit:
    """A law and how well it describes the steps it comes from.

    Attributes:
        law: The law, without a floor.
        decode_error: Root mean square error of steps without prompt tokens, over their mean.
        prefill_error: The same of steps with them.
    """

    law: StepLaw
    decode_error: float
    prefill_error: float


def fit_law(steps: Mapping[StepClass, Moments]) -> LawFit:
    """Fits the law.

    Raises:
        TooFewStepsError: One kind of steps, with or without prompts, was hardly seen.
    """
    decode = steps.get(StepClass.DECODE_ONLY, Moments())
    prefill = total_moments(found for kind, found in steps.items() if kind in _WITH_PROMPTS)
    for kind, found in (("without", decode), ("with", prefill)):
        if found.count < LEAST_STEPS:
            raise TooFewStepsError(
                f"{found.count:.0f} steps {kind} prompt tokens were seen: "
                f"measure {LEAST_STEPS} at least"
            )
    law = _with_prompts(_of_decoding(decode), prefill)
    return LawFit(law=law, decode_error=_error(law, decode), prefill_error=_error(law, prefill))


_WITH_PROMPTS = (StepClass.MIXED, StepClass.PREFILL_ONLY)


def _of_decoding(decode: Moments) -> StepLaw:
    known = fit.learn(FitMemory(), decode, fit.DECODE, GENERIC.decode)
    found = fit.estimate(
        known, fit.DECODE, GENERIC.decode, GENERIC.relative_sd, scale_free=True
    ).law
    return StepLaw(
        base_ms=found.base_ms,
        per_prefill_token_ms=0.0,
        per_decode_row_ms=found.per_decode_row_ms,
        per_kv_token_ms=found.per_kv_token_ms,
    )


def _with_prompts(decode: StepLaw, prefill: Moments) -> StepLaw:
    """The law with the least squares of what it leaves unexplained over p and x."""

    def left_over(variable: str) -> float:
        explained = sum(_value(decode, of) * prefill.product(variable, of) for of in "ndk")
        return 1e3 * prefill.product(variable, "t") - explained

    matrix = [[prefill.product(a, b) for b in "px"] for a in "px"]
    per_token_ms, per_context_ms = solve_non_negative(matrix, [left_over("p"), left_over("x")])
    return StepLaw(
        base_ms=decode.base_ms,
        per_prefill_token_ms=per_token_ms,
        per_decode_row_ms=decode.per_decode_row_ms,
        per_kv_token_ms=decode.per_kv_token_ms,
        per_chunk_context_ms=per_context_ms,
    )


def _error(law: StepLaw, seen: Moments) -> float:
    onto = sum(_value(law, of) * 1e3 * seen.product(of, "t") for of in _TERMS)
    square = sum(
        _value(law, a) * _value(law, b) * seen.product(a, b) for a in _TERMS for b in _TERMS
    )
    residual = 1e6 * seen.of("tt") - 2 * onto + square
    return sqrt(max(0.0, residual) / seen.count) / (1e3 * seen.mean("t"))


def _value(law: StepLaw, variable: str) -> float:
    return float(getattr(law, _TERMS[variable]))
