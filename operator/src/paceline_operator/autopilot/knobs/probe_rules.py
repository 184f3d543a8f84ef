"""Safe excitation: a budget moved only so that the model can learn from it.

Where every step with prompts is as full as the one before, the cost of a prompt token cannot
be told from that of a step. One rung on one pod for a minute tells, and only while nothing is
wrong.
"""

from __future__ import annotations

from dataclasses import replace

from paceline_operator.autopilot.knobs.trial_rules import LEAST_FULL_STEPS, trial_pod
from paceline_operator.autopilot.measurement.attainment import measure
from paceline_operator.autopilot.plant.pace import KNOWN_STEPS
from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary.decision import Knob, Reason
from paceline_operator.autopilot.vocabulary.fleet import Trial
from paceline_operator.autopilot.vocabulary.move import Move
from paceline_operator.autopilot.vocabulary.window import Counter

UNCERTAIN_SD = 0.15
PROBE_EVERY_S = 300.0
_SDS = 2.0


def probe(s: Situation) -> Move | None:
    """One rung on one pod, where the model needs it and the objectives can bear it."""
    spread = s.plant.prefill.coefficient_sd("p")
    if spread <= UNCERTAIN_SD or s.plant.prefill.steps < KNOWN_STEPS or not _may(s):
        return None
    budget = _rung(s)
    pod = trial_pod(s, budget) if budget is not None else None
    if budget is None or pod is None:
        return None
    now = s.knobs.max_num_batched_tokens
    message = (
        f"Budget {now} -> {budget} on {pod.name} alone for a minute: what a prompt token costs "
        f"is known to {100 * spread:.0f} % only."
    )
    return Move(
        knob=Knob.BUDGET,
        before=now,
        after=budget,
        reason=Reason.PROBE,
        guard=Reason.CANARY,
        message=message,
        tunables=s.knobs,
        trial=Trial(uid=pod.uid, budget=budget, probes=True),
        memory=replace(s.memory, probed_at_s=s.now_s),
    )


def _may(s: Situation) -> bool:
    """Whether nothing is wrong, nothing else moves, and full steps would show a difference."""
    is_calm = (
        s.memory.trial is None
        and s.memory.squeezed_seqs is None
        and not s.fleet.rolling_out
        and len(s.fleet.serving) >= 2
        and s.now_s - s.memory.probed_at_s >= PROBE_EVERY_S
    )
    full = s.since_change.count(Counter.STEPS_AT_BUDGET)
    return (
        is_calm
        and full >= LEAST_FULL_STEPS
        and all(measure(goal, s.since_change).met for goal in s.steering)
    )


def _rung(s: Situation) -> int | None:
    """The one above where the model, uncertain as it is, allows it; else the one below."""
    now, ladder, target = s.knobs.max_num_batched_tokens, s.ladder(), s.itl_target_ms
    above = ladder.next_up(now)
    most_ms = s.plant.full_ms(above) * (1 + _SDS * s.plant.uncertainty(above))
    if above > now and (target is None or most_ms <= (1 - s.margin) * target):
        return above
    below = ladder.down(now - max(ladder.step, now - ladder.down(now / 1.12)))
    return below if below < now else None
