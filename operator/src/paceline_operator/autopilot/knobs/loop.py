"""The fast loop: the live knobs, every 10 s."""

from __future__ import annotations

from dataclasses import replace

from paceline_operator.autopilot.knobs import account as knob_account
from paceline_operator.autopilot.knobs import figures
from paceline_operator.autopilot.knobs.margin import trimmed
from paceline_operator.autopilot.knobs.reversal import blind_since_s
from paceline_operator.autopilot.knobs.rules import first_wish
from paceline_operator.autopilot.situation import restraint
from paceline_operator.autopilot.situation.restraint import Restraint
from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary.decision import Reason, SetTunables
from paceline_operator.autopilot.vocabulary.fleet import Tunables
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.move import Move, Outcome

KNOB_EVERY_S = 10.0
_FOR_A_WHILE = (Reason.FROZEN, Reason.BLAST_RADIUS)


def run(s: Situation) -> Outcome:
    """One pass of the loop, accounted for."""
    made = _pass(s)
    after = _after(s, made)
    told = tuple(knob_account.told(s, each, after) for each in made.decisions)
    memory = replace(made.memory, blind_since_s=blind_since_s(s))
    return replace(made, decisions=told, memory=memory)


def _after(s: Situation, made: Outcome) -> Situation:
    """The situation once what was decided is done."""
    knobs = next((a.tunables for a in made.actions if isinstance(a, SetTunables)), None)
    fleet = s.fleet if knobs is None else replace(s.fleet, desired_tunables=knobs)
    return replace(s, fleet=fleet, memory=made.memory)


def _pass(s: Situation) -> Outcome:
    wish = first_wish(s)
    held = restraint.of_live_knobs(s, wish)
    memory = replace(trimmed(s, is_free=held is None), knob_at_s=s.now_s)
    refusal = None if held is None else held.reason
    if refusal is not None and refusal not in _FOR_A_WHILE:
        # Nobody here will end a squeeze any more, so it must not bind the replicas either.
        # The same of a trial: what nobody will judge any more ends.
        memory = replace(memory, squeezed_seqs=None, squeezed_replicas=0, trial=None)
    inputs = figures.of_knobs(s)
    if wish.tunables is None or _unchanged(s, wish):
        if wish.memory is not None and refusal is None:
            memory = replace(wish.memory, knob_at_s=s.now_s, margin_at_s=s.now_s)
        reason = refusal if wish.holds and refusal is Reason.MODE_OFF else None
        decision = replace(wish, reason=reason or wish.reason).decision(
            s.now_s, inputs, applied=False
        )
        return Outcome(decisions=(decision,), memory=memory)
    if held is not None:
        decision = _refused(wish, held).decision(s.now_s, inputs, applied=False, guard=refusal)
        return Outcome(decisions=(decision,), memory=memory)
    decision = wish.decision(s.now_s, inputs, applied=True)
    moved = _noted(s, wish, memory)
    action = SetTunables(wish.tunables, wish.trial)
    return Outcome(decisions=(decision,), memory=moved, actions=(action,))


def _refused(wish: Move, held: Restraint) -> Move:
    message = held.text + wish.message
    if held.reason in (Reason.FOREIGN_WRITER, Reason.RECOMMEND_ONLY):
        return replace(wish, message=message)
    return replace(wish, after=wish.before, reason=held.reason, message=message)


def _unchanged(s: Situation, wish: Move) -> bool:
    return wish.tunables == s.knobs and wish.trial == s.memory.trial


def _noted(s: Situation, wish: Move, trimmed: Memory) -> Memory:
    memory = replace(
        wish.memory or trimmed, knob_at_s=s.now_s, margin_at_s=s.now_s, trial=wish.trial,
        trial_at_s=s.now_s,
    )  # fmt: skip
    before, after = s.knobs, wish.tunables or s.knobs
    if wish.tunables == s.knobs and wish.trial is None:
        return replace(memory, lowered_at_s=s.now_s)  # a trial has ended
    if _lowers(before, after):
        if wish.reason in (Reason.ITL_PREFILL_BOUND, Reason.ABOVE_MODEL_CAP):
            budget = before.max_num_batched_tokens
            memory = replace(memory, refused_budget=budget, refused_at_s=s.now_s)
        return replace(memory, lowered_at_s=s.now_s)
    return replace(memory, raised_at_s=s.now_s)


def _lowers(before: Tunables, after: Tunables) -> bool:
    return (
        after.max_num_batched_tokens < before.max_num_batched_tokens
        or after.max_num_running_seqs < before.max_num_running_seqs
    )
