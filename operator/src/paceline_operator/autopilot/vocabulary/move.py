"""What a loop wants, before modes and writers decide whether it is done."""

from __future__ import annotations

from dataclasses import dataclass, field

from paceline_operator.autopilot.vocabulary.decision import (
    Action,
    ActionItem,
    Decision,
    Inputs,
    Knob,
    Reason,
)
from paceline_operator.autopilot.vocabulary.fleet import Trial, Tunables
from paceline_operator.autopilot.vocabulary.memory import Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A wish about one knob; a hold where `after` is `before`.

    Attributes:
        knob: About what.
        before: Value now.
        after: Value wanted.
        reason: Why; of a hold: what binds.
        message: In plain words.
        guard: What forbade a larger move.
        tunables: Both live knobs as wanted, for moves of these.
        trial: Pod that gets another budget, for moves of the live knobs.
        memory: State if the move is made, None where it changes nothing else.
        takes_back: Whether it ends what was moved for a time only: calendar and other services
            do not hold that.
    """

    knob: Knob
    before: int
    after: int
    reason: Reason
    message: str
    guard: Reason | None = None
    tunables: Tunables | None = None
    trial: Trial | None = None
    memory: Memory | None = None
    takes_back: bool = False

    @property
    def holds(self) -> bool:
        """Whether nothing is wanted."""
        return self.after == self.before

    @property
    def action(self) -> Action:
        """The word for it."""
        up = self.after > self.before
        if self.holds:
            return Action.HOLD
        if self.knob is Knob.REPLICAS:
            return Action.SCALE_OUT if up else Action.SCALE_IN
        return Action.RAISE if up else Action.LOWER

    def decision(
        self, now_s: float, inputs: Inputs, *, applied: bool, guard: Reason | None = None
    ) -> Decision:
        """The wish as a decision."""
        return Decision(
            time_s=now_s,
            knob=self.knob,
            action=self.action,
            reason=self.reason,
            guard=guard or self.guard,
            message=self.message,
            inputs=inputs,
            before=self.before,
            after=self.after,
            applied=applied,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of one loop: decisions, what to execute, and what to remember."""

    decisions: tuple[Decision, ...]
    memory: Memory
    actions: tuple[ActionItem, ...] = field(default=())
