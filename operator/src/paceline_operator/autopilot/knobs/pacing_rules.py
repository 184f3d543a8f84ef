"""Rules for engines that size each step themselves: the target follows the objective.

An engine that is given a step time puts as many prompt tokens beside the decodes of a step as
keep it, by its own estimate; the budget is no more than the ceiling of that.
"""

from __future__ import annotations

from dataclasses import replace

from paceline_operator.autopilot.knobs.moves import step_time_move
from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary import phrases
from paceline_operator.autopilot.vocabulary.decision import Reason
from paceline_operator.autopilot.vocabulary.move import Move

DEAD_BAND = 0.02
"""Relative change of the target below which engines are left alone."""


def repace(s: Situation) -> Move | None:
    """The step time that engines keep is what objective and margin make it, or none."""
    target_ms, known_ms = s.step_time_target_ms, s.knobs.step_time_target_ms
    ladder, now = s.ladder(), s.knobs.max_num_batched_tokens
    if target_ms is None:
        if known_ms is None:
            return None
        budget, said = ladder.down(min(now, s.cap_or_floor)), "Engines keep no step time any more"
    else:
        is_near = known_ms is not None and abs(target_ms - known_ms) <= DEAD_BAND * known_ms
        if is_near and now == ladder.ceiling:
            return None
        budget, said = ladder.ceiling, f"Engines keep steps within {phrases.ms(target_ms)}"
    also = "" if budget == now else f"; budget {now} -> {budget}"
    move = step_time_move(s, target_ms, Reason.STEP_TIME_TARGET, f"{said}{also}.")
    knobs = replace(s.knobs, max_num_batched_tokens=budget, step_time_target_ms=target_ms)
    return replace(move, tunables=knobs)
