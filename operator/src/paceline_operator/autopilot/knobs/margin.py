"""The margin: integral feedback on the gaps that step times decide about."""

from __future__ import annotations

from dataclasses import replace

from paceline_operator.api.v1alpha1 import SloMetric
from paceline_operator.autopilot.measurement.attainment import measure
from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary.arbitration import Cause
from paceline_operator.autopilot.vocabulary.fleet import DataClass
from paceline_operator.autopilot.vocabulary.memory import MarginGrowth, Memory
from paceline_operator.autopilot.vocabulary.window import Counter, StepClass

LEAST = 0.05
MOST = 0.40
PER_SECOND = 0.5 / 60
JUDGED_AFTER = 0.10
"""Growth after which it is asked what that has brought."""
WORTH = 0.2
"""Share of what was missed that it must have brought at least."""
FAILED_LASTS_S = 1800.0
_ENOUGH_STEPS = 100
_NEAR_CAP = 0.9


def trimmed(s: Situation, *, is_free: bool) -> Memory:
    """Integral feedback on the margin, only where the budget is what shapes ITL.

    Frozen while anything else limits: a mode, a calendar or another writer that holds the knobs,
    stale data, a squeeze, few steps, engines that work with a larger budget or another step time,
    or a budget that lies well below the cap.

    Args:
        s: The situation.
        is_free: Whether nothing holds the live knobs.
    """
    elapsed_s = min(60.0, max(0.0, s.now_s - (s.memory.margin_at_s or s.now_s)))
    memory = replace(s.memory, margin_at_s=s.now_s)
    error = _missed(s) if is_free and _decides(s) else None
    if error is None:
        return memory
    if error > 0 and is_useless(s):
        return memory
    margin = min(MOST, max(LEAST, memory.margin + PER_SECOND * error * elapsed_s))
    return _judged(replace(memory, margin=margin), memory.margin, error, s.now_s)


def is_useless(s: Situation) -> bool:
    """Whether a larger margin has lately brought nothing: something else makes gaps late."""
    until_s = useless_until_s(s)
    return until_s is not None and s.now_s < until_s


def useless_until_s(s: Situation) -> float | None:
    """Until when that is taken to be so, None where it is not."""
    failed_at_s = s.memory.margin_growth.failed_at_s
    return failed_at_s + FAILED_LASTS_S if failed_at_s else None


def _judged(grown: Memory, before: float, error: float, now_s: float) -> Memory:
    """Gives back what has grown, where it has brought too little."""
    known = grown.margin_growth
    if error <= 0:
        return replace(grown, margin_growth=MarginGrowth()) if known != MarginGrowth() else grown
    if not known.missed:
        return replace(grown, margin_growth=MarginGrowth(start=before, missed=error))
    if grown.margin - known.start < JUDGED_AFTER:
        return grown
    if error <= (1 - WORTH) * known.missed:
        return replace(grown, margin_growth=MarginGrowth(start=grown.margin, missed=error))
    failed = MarginGrowth(failed_at_s=now_s)
    return replace(grown, margin=known.start, margin_growth=failed)


def _missed(s: Situation) -> float | None:
    """Share of gaps that is missed beyond what may be, of the worst objective; None if unknown."""
    window = s.since_change
    errors = [
        objective.share - found.attainment
        for objective in s.itl_objectives
        if objective.metric is SloMetric.ITL
        and (found := measure(objective, window)).attainment is not None
        and found.samples >= _ENOUGH_STEPS
    ]
    return max(errors, default=None)


def _decides(s: Situation) -> bool:
    """Whether the margin is what decides about gaps now."""
    if s.data is not DataClass.FRESH or s.cap is None or s.memory.squeezed_seqs is not None:
        return False
    if s.fleet.unheeded or s.unpaced:
        return False
    window, now = s.since_change, s.knobs.max_num_batched_tokens
    if s.step_time_target_ms is not None:
        by_steps = s.cause in (Cause.NONE, Cause.PREFILL)
        return by_steps and window.moments(StepClass.MIXED).count > 0
    is_near = _NEAR_CAP * s.cap <= now <= s.cap / _NEAR_CAP
    return is_near and window.count(Counter.STEPS_AT_BUDGET) > 0
