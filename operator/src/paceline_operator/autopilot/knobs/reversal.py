"""What was moved for a time only is taken back once nobody can judge it any more.

A trial and a squeeze wait for measurements: of one pod's steps, of a replica that helps. Where
those cannot come, they end here, before any rule that holds for want of them.
"""

from __future__ import annotations

from paceline_operator.autopilot.knobs.itl_rules import restored
from paceline_operator.autopilot.knobs.trial_rules import LONGEST_S, Verdict, rolled_back
from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary import phrases
from paceline_operator.autopilot.vocabulary.fleet import DataClass
from paceline_operator.autopilot.vocabulary.move import Move

BLIND_S = 60.0
"""Without fresh measurements for so long, nobody says soon whether a squeeze is still needed."""
GRACE_S = 10.0
"""Left to judge a trial after its time, before it ends unjudged: one pass of the loop."""


def reversal(s: Situation) -> Move | None:
    """Takes back a trial, or a squeeze, that the law cannot judge; None where it can, or later."""
    return _of_trial(s) or _of_squeeze(s)


def blind_since_s(s: Situation) -> float | None:
    """Since when the law has had nothing to judge the live knobs by, None while it has."""
    if s.policy.steering and s.data is DataClass.FRESH:
        return None
    return s.now_s if s.memory.blind_since_s is None else s.memory.blind_since_s


def _of_trial(s: Situation) -> Move | None:
    trial = s.memory.trial
    if trial is None:
        return None
    is_over = s.now_s - s.memory.trial_at_s >= LONGEST_S + GRACE_S
    return rolled_back(s, trial, Verdict.UNJUDGED) if is_over or not s.policy.steering else None


def _of_squeeze(s: Situation) -> Move | None:
    wanted, since_s = s.memory.squeezed_seqs, blind_since_s(s)
    if wanted is None or since_s is None:
        return None
    if not s.policy.steering:
        missing = phrases.no_objective(len(s.policy.objectives))
        return restored(s, wanted, f"{missing[0].lower()}{missing[1:]}", takes_back=True)
    if s.now_s - since_s < BLIND_S:
        return None
    return restored(s, wanted, f"nothing was measured for {BLIND_S:.0f} s", takes_back=True)
