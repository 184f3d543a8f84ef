"""The model against what came of it: steps that take longer, or less, than predicted.

It only watches. Taking the laws times this factor follows a throttled clock sooner, but the
budget is then cut before replicas come, and first tokens pay for it.
"""

from __future__ import annotations

from dataclasses import replace

from paceline_operator.autopilot.plant.fit import Estimate
from paceline_operator.autopilot.plant.pace import KNOWN_STEPS, predicted_s
from paceline_operator.autopilot.vocabulary.memory import FitMemory, Memory
from paceline_operator.autopilot.vocabulary.window import Moments, StepClass, Window

LEAST_STEPS = 20.0
HALF_LIFE_S = 120.0
LEAST_FACTOR, MOST_FACTOR = 0.5, 2.0
MISMATCH_S = 900.0


def compared(memory: Memory, window: Window, laws: tuple[Estimate, Estimate]) -> Memory:
    """Memory after a slice was held against the laws that were there before it.

    A factor that stays at a clip for a quarter of an hour says that no law of this form fits:
    then all evidence goes.

    Args:
        memory: Before that.
        window: The slice, without sick pods.
        laws: Of decode-only steps, and of steps with prompt tokens.
    """
    ratio = _ratio(window, laws)
    if ratio is None:
        return memory
    return _mismatch(memory, ratio, window)


def _ratio(window: Window, laws: tuple[Estimate, Estimate]) -> float | None:
    """Observed over predicted time; None where there is too little to say."""
    prefill = window.moments(StepClass.MIXED, StepClass.PREFILL_ONLY)
    parts: list[tuple[Estimate, Moments]] = [
        (law, seen)
        for law, seen in zip(laws, (window.moments(StepClass.DECODE_ONLY), prefill), strict=True)
        if seen.count and law.steps >= KNOWN_STEPS
    ]
    if sum(seen.count for _, seen in parts) < LEAST_STEPS:
        return None
    observed_s = sum(seen.of("t") for _, seen in parts)
    return observed_s / max(1e-9, sum(predicted_s(law, seen) for law, seen in parts))


def _mismatch(memory: Memory, ratio: float, window: Window) -> Memory:
    keep = 0.5 ** (window.length_s / HALF_LIFE_S)
    factor = keep * memory.step_factor + (1.0 - keep) * ratio
    factor = min(MOST_FACTOR, max(LEAST_FACTOR, factor))
    if LEAST_FACTOR < factor < MOST_FACTOR:
        return replace(memory, step_factor=factor, clipped_since_s=None)
    since_s = window.end_s if memory.clipped_since_s is None else memory.clipped_since_s
    if window.end_s - since_s < MISMATCH_S:
        return replace(memory, step_factor=factor, clipped_since_s=since_s)
    return replace(
        memory,
        step_factor=1.0,
        clipped_since_s=None,
        mismatched_at_s=window.end_s,
        decode_fit=FitMemory(),
        prefill_fit=FitMemory(),
    )
