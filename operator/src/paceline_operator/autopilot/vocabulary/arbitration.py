"""Which knob may answer which violation: one table, so that the two loops never fight."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Cause(StrEnum):
    """Which steps make ITL too long."""

    NONE = "none"
    PREFILL = "prefill"
    DECODE = "decode"
    UNKNOWN = "unknown"


class BudgetMove(StrEnum):
    """Direction the budget may go."""

    LOWER = "lower"
    RAISE = "raise"
    ANY = "any"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stance:
    """What the loops may do in one situation.

    Attributes:
        budget: Direction of the budget.
        squeeze: Whether fewer sequences may run at once.
        out_now: Whether measured violations alone ask for a replica at once.
        out_late: Whether they do when the budget can do no more.
    """

    budget: BudgetMove
    squeeze: bool = False
    out_now: bool = False
    out_late: bool = False


# (ITL violated by, TTFT violated) -> stance. A larger budget never helps ITL, a smaller one
# never TTFT; a squeeze helps ITL and costs TTFT. With both violated only replicas help, and
# the budget still goes to its cap.
TABLE: dict[tuple[Cause, bool], Stance] = {
    (Cause.NONE, False): Stance(budget=BudgetMove.ANY),
    (Cause.NONE, True): Stance(budget=BudgetMove.RAISE, out_late=True),
    (Cause.PREFILL, False): Stance(budget=BudgetMove.LOWER),
    (Cause.PREFILL, True): Stance(budget=BudgetMove.LOWER, out_now=True),
    (Cause.DECODE, False): Stance(budget=BudgetMove.NONE, squeeze=True, out_now=True),
    (Cause.DECODE, True): Stance(budget=BudgetMove.NONE, out_now=True),
    (Cause.UNKNOWN, False): Stance(budget=BudgetMove.NONE),
    (Cause.UNKNOWN, True): Stance(budget=BudgetMove.NONE, out_now=True),
}


def stance(cause: Cause, *, ttft_violated: bool) -> Stance:
    """The row of the table."""
    return TABLE[(cause, ttft_violated)]
