"""Decisions of the control law in the form of the status."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from paceline_operator.api.conditions import timestamp
from paceline_operator.api.status import (
    CandidateStatus,
    DecisionStatus,
    ExplainedDecision,
    NextStepStatus,
)
from paceline_operator.autopilot.vocabulary.decision import (
    Candidate,
    Decision,
    NextStep,
    Observation,
)

INPUT_DIGITS = 8
"""Enough to compute a decision again."""
SHOWN_DIGITS = 4


def change(decision: Decision) -> DecisionStatus:
    """A move as one of the last changes."""
    return DecisionStatus(**_told(decision))


def bare(decision: Decision) -> ExplainedDecision:
    """A decision with the figures it was made from."""
    return ExplainedDecision(**_told(decision), inputs=_figures(decision.inputs, INPUT_DIGITS))


def whole(decision: Decision) -> ExplainedDecision:
    """The same with what was considered and what comes next."""
    return bare(decision).model_copy(
        update={
            "considered": tuple(_candidate(each) for each in decision.considered),
            "next_steps": tuple(_next(each) for each in decision.next_steps),
        }
    )


def with_observations(
    changes: tuple[DecisionStatus, ...], observed: tuple[Observation, ...]
) -> tuple[DecisionStatus, ...]:
    """The last changes with what was measured after some of them."""
    found = {(_time(each.moved_at_s), each.knob.value): each for each in observed}
    return tuple(
        each
        if (each.time, each.knob) not in found
        else each.model_copy(
            update={"observed": _figures(found[each.time, each.knob].figures, SHOWN_DIGITS)}
        )
        for each in changes
    )


def _told(decision: Decision) -> dict[str, Any]:
    expected = decision.expected
    return {
        "time": _time(decision.time_s),
        "knob": decision.knob.value,
        "action": decision.action.value,
        "reason": decision.reason.value,
        "guard": None if decision.guard is None else decision.guard.value,
        "message": decision.message,
        "before": decision.before,
        "after": decision.after,
        "expected": None if expected is None else _figures(expected.figures, SHOWN_DIGITS),
    }


def _candidate(candidate: Candidate) -> CandidateStatus:
    return CandidateStatus(
        value=candidate.value,
        chosen=candidate.chosen,
        reason=candidate.reason.value,
        message=candidate.message,
        figures=_figures(candidate.figures, SHOWN_DIGITS),
    )


def _next(step: NextStep) -> NextStepStatus:
    return NextStepStatus(
        action=step.action.value,
        value=step.value,
        earliest=None if step.earliest_s is None else _time(step.earliest_s),
        waits_for=step.waits_for.value,
        message=step.message,
    )


def _figures(figures: Mapping[str, Any], digits: int) -> dict[str, Any] | None:
    """Without what is not known; infinite is not known either, and no JSON."""
    found = {
        name: _rounded(value, digits)
        for name, value in figures.items()
        if value is not None and value not in (float("inf"), float("-inf"))
    }
    return found or None


def _rounded(value: Any, digits: int) -> Any:
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def _time(seconds: float) -> str:
    return timestamp(datetime.fromtimestamp(seconds, UTC))
