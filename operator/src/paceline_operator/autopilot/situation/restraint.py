"""What holds a move although it is wanted, and in which words.

Modes and writers first, then the calendar, then the limit on changes over all services.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from paceline_operator.api.choice import FreezeScope, Mode, Pause
from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary import phrases, timetable
from paceline_operator.autopilot.vocabulary.decision import Knob, Reason
from paceline_operator.autopilot.vocabulary.move import Move

BY_USER = frozenset(
    {
        Reason.MANUAL_VALUE,
        Reason.MANUAL_FLOOR,
        Reason.BELOW_MINIMUM,
        Reason.ABOVE_MAXIMUM,
    }
)
"""What the user asks for is done whatever mode, calendar and other services say."""
ORDERED = BY_USER | {Reason.SCHEDULE, Reason.OUTSIDE_LIMITS}
"""What neither freeze windows nor the limit on changes hold, beside moves that take one back."""
_LIVE = frozenset({Knob.BUDGET, Knob.STEP_TIME, Knob.RUNNING_SEQS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Restraint:
    """Why a move is not made, and the words before what it would have been."""

    reason: Reason
    text: str


def of_replicas(s: Situation, wish: Move) -> Restraint | None:
    """What holds a move of the replicas, None where nothing does."""
    if Knob.REPLICAS.value in s.fleet.yielded:
        return Restraint(
            reason=Reason.FOREIGN_WRITER, text="Not done (replicas are left to another writer). "
        )
    if wish.reason in BY_USER:
        return None
    mode = _mode(s.policy.scaling_mode, "scaling", lowered=s.policy.scaling_lowered)
    if mode is not None or wish.reason is Reason.SCHEDULE:
        return mode
    return _paused(s, wish) or _frozen(s, wish) or _spent(s, wish)


def of_live_knobs(s: Situation, wish: Move) -> Restraint | None:
    """What holds a move of the live knobs, None where nothing does."""
    if s.policy.tuning_mode is Mode.OFF:
        return _mode(Mode.OFF, "tuning", lowered=s.policy.tuning_lowered)
    if {each.value for each in _LIVE} & s.fleet.yielded.keys():
        return Restraint(
            reason=Reason.FOREIGN_WRITER, text="Not done (this knob is left to another writer). "
        )
    mode = _mode(s.policy.tuning_mode, "tuning", lowered=s.policy.tuning_lowered)
    if mode is not None or wish.reason in ORDERED or wish.takes_back:
        return mode
    return _frozen(s, wish) or _spent(s, wish)


def shortened(s: Situation, wish: Move) -> Move:
    """The part of a move of replicas that the limit on changes leaves."""
    left = _left(s, wish)
    if left is None or wish.reason in ORDERED or abs(wish.after - wish.before) <= left:
        return wish
    after = wish.before + (left if wish.after > wish.before else -left)
    text = f"{wish.message} Only {left} of {abs(wish.after - wish.before)} for now: {_limit(s)}."
    return replace(wish, after=after, message=text, guard=Reason.BLAST_RADIUS)


def _mode(mode: Mode, name: str, *, lowered: bool) -> Restraint | None:
    who = phrases.lowered(is_lowered=lowered)
    if mode is Mode.OFF:
        return Restraint(reason=Reason.MODE_OFF, text=f"Not done ({name} is Off{who}). ")
    if mode is Mode.RECOMMEND:
        text = f"Recommended, not done ({name} is in mode Recommend{who}). "
        return Restraint(reason=Reason.RECOMMEND_ONLY, text=text)
    return None


def _paused(s: Situation, wish: Move) -> Restraint | None:
    held = {Pause.ALL, Pause.OUT if wish.after > wish.before else Pause.IN}
    if s.policy.pause not in held:
        return None
    return Restraint(reason=Reason.PAUSED, text="Not done (scaling is paused). ")


def _frozen(s: Situation, wish: Move) -> Restraint | None:
    found = timetable.frozen(s.policy, s.now_s)
    inward = wish.knob is Knob.REPLICAS and wish.after < wish.before
    if found is None or (found.scope is FreezeScope.IN and not inward):
        return None
    return Restraint(reason=Reason.FROZEN, text=f"Not done ({found.text(s.now_s)}). ")


def _spent(s: Situation, wish: Move) -> Restraint | None:
    left = _left(s, wish)
    if left is None or left > 0:
        return None
    return Restraint(reason=Reason.BLAST_RADIUS, text=f"Not done ({_limit(s)}). ")


def _left(s: Situation, wish: Move) -> int | None:
    """Changes that are left for this move, None for any number."""
    allowance = s.fleet.allowance
    if wish.knob in _LIVE:
        return None if allowance.knobs else 0
    return allowance.out if wish.after > wish.before else allowance.inward


def _limit(s: Situation) -> str:
    since = s.fleet.allowance.until_s
    when = "" if since is None else f"; more from {phrases.second(since)} on"
    return f"the limit of changes a minute over all services is reached{when}"
