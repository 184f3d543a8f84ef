"""One knob in sentences: what was decided, what was considered, and what comes next."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from paceline_operator.api.status import ExplainedDecision, NextStepStatus
from paceline_operator.cli import wording

TITLES = {
    "budget": "Token budget",
    "stepTime": "Step time",
    "runningSeqs": "Running sequences",
    "replicas": "Replicas",
}
_UNITS = {"stepTime": " ms"}
_DONE = {
    "Raise": "raise",
    "Lower": "cut",
    "ScaleOut": "scale-out",
    "ScaleIn": "scale-in",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobStory:
    """Sentences about one knob, in reading order."""

    knob: str
    decided: str
    considered: tuple[str, ...]
    next: tuple[str, ...]

    def text(self) -> str:
        """With the knob's name above."""
        lines = [title(self.knob), f"  {self.decided}"]
        lines += [f"  {said}" for said in self.considered]
        lines += [f"  Next: {said}" for said in self.next]
        return "\n".join(lines)


def title(knob: str) -> str:
    """The knob's name in words."""
    return TITLES.get(knob, knob)


def valued(knob: str, value: int | None) -> str:
    """A value with the knob's unit; of a step time, 0 is none."""
    if value is None or (knob == "stepTime" and value == 0):
        return "none"
    return f"{value}{_UNITS.get(knob, '')}"


def story(decision: ExplainedDecision, now: datetime) -> KnobStory:
    """Of the newest decision about a knob."""
    unit = _UNITS.get(decision.knob, "")
    rejected = [each for each in decision.considered if not each.chosen]
    chosen = [each for each in decision.considered if each.chosen]
    return KnobStory(
        knob=decision.knob,
        decided=f"{wording.age(decision.time, now)} ago: "
        f"{wording.decided(decision)}. {decision.message}",
        considered=(
            *(f"At {each.value}{unit}: {each.message}." for each in chosen),
            *(f"Not {each.value}{unit} ({each.reason}): {each.message}." for each in rejected),
        ),
        next=tuple(_next(each, now) for each in decision.next_steps),
    )


def _next(step: NextStepStatus, now: datetime) -> str:
    what = _DONE.get(step.action, step.action)
    to = "" if step.value is None else f" to {step.value}"
    if step.earliest is None:
        return f"{what}{to} ({step.waits_for}): {step.message}."
    when = wording.clock(step.earliest, now)
    since = wording.instant(step.earliest) <= now
    possible = f"possible since {when}" if since else f"possible at {when} at the earliest"
    return f"{what}{to} is {possible} ({step.waits_for}): {step.message}."
