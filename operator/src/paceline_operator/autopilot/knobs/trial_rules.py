"""A raise beyond what full steps have proven: on one pod first, judged by its step times.

The other pods of the same minute are the control group; a pod alone is held against the law,
which is what it did before.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from paceline_operator.autopilot.knobs.moves import budget_move
from paceline_operator.autopilot.measurement.objectives import is_missed
from paceline_operator.autopilot.plant.pace import predicted_s, prompts
from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary import phrases
from paceline_operator.autopilot.vocabulary.decision import Knob, Reason
from paceline_operator.autopilot.vocabulary.fleet import DataClass, PodObservation, Trial
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.move import Move
from paceline_operator.autopilot.vocabulary.window import PodShare, Window, total_shares

TAKES_S = 2.5
"""Until a push has reached the engine for certain: a slice that began sooner does not count."""
LEAST_FULL_STEPS = 20.0
LEAST_CONTROL_STEPS = 20.0
LONGEST_S = 60.0
FAILED_LASTS_S = 1800.0
LIGHTER = 0.8
"""Share of the sequences of then below which a budget that failed may be tried anew."""


class Verdict(StrEnum):
    """What a trial has come to."""

    OPEN = "open"
    HELD = "held"
    FAILED = "failed"
    NOT_USED = "not used"
    POD_GONE = "pod gone"
    LEARNED = "learned"
    STOPPED = "stopped"
    UNJUDGED = "unjudged"


def trial_move(s: Situation, budget: int, reason: Reason, why: str) -> Move | None:
    """One sound pod gets a budget that the others do not have yet; None without such a pod."""
    pod, now = trial_pod(s, budget), s.knobs
    if pod is None:
        return None
    message = (
        f"Budget {now.max_num_batched_tokens} -> {budget} on {pod.name} alone at first: {why} "
        f"A full step should take {phrases.ms(s.plant.full_ms(budget))}."
    )
    return Move(
        knob=Knob.BUDGET,
        before=now.max_num_batched_tokens,
        after=budget,
        reason=reason,
        guard=Reason.CANARY,
        message=message,
        tunables=now,
        trial=Trial(uid=pod.uid, budget=budget),
    )


def trial_pod(s: Situation, budget: int) -> PodObservation | None:
    """The oldest sound pod that can take a budget."""
    pods = [p for p in s.fleet.serving if p.uid not in s.sick and _can_try(p, budget)]
    return min(pods, key=lambda each: (each.created_s, each.name), default=None)


def judge_trial(s: Situation) -> Move | None:
    """Ends a trial: its budget for all, or the old one for all; None while it is open."""
    trial = s.memory.trial
    if trial is None:
        return None
    share = _window(s).pods.get(trial.uid, PodShare())
    verdict, took_ms = _verdict(s, trial, share)
    if verdict is Verdict.OPEN:
        return None
    if verdict is Verdict.HELD:
        budget = s.ladder().down(trial.budget)
        memory = replace(s.memory, proven_budget=max(s.memory.proven_budget, budget),
                         proven_at_s=s.now_s)  # fmt: skip
        message = (
            f"Budget {s.knobs.max_num_batched_tokens} -> {budget} on all pods: on the one that "
            f"tried it a full step took {phrases.ms(took_ms)}."
        )
        return budget_move(s, budget, Reason.CANARY_HELD, message, memory=memory)
    return rolled_back(s, trial, verdict, took_ms)


def failed(s: Situation, budget: int) -> bool:
    """Whether full steps of a budget, or of a smaller one, took too long lately under such load."""
    memory = s.memory
    lately = s.now_s - memory.failed_at_s < FAILED_LASTS_S
    as_heavy = s.plant.workload.rows_p95 >= LIGHTER * memory.failed_rows
    return lately and as_heavy and budget >= memory.failed_budget > 0


def full_step_ms(s: Situation, budget: int, share: PodShare, control: PodShare) -> float:
    """Time of one of a pod's full steps, from the sums over all of its steps with prompts.

    Against the control group's ratio of observed to predicted time, all that its steps took
    longer is put down to the full ones.
    """
    law, seen = s.plant.prefill, prompts(share)
    others = prompts(control)
    usual = 1.0
    if others.count >= LEAST_CONTROL_STEPS:
        usual = others.of("t") / max(1e-9, predicted_s(law, others))
    excess_ms = 1e3 * (seen.of("t") - usual * predicted_s(law, seen)) / max(1.0, share.at_budget)
    return usual * s.plant.full_ms(budget) + excess_ms


def _verdict(s: Situation, trial: Trial, share: PodShare) -> tuple[Verdict, float]:
    pod = next((p for p in s.fleet.serving if p.uid == trial.uid), None)
    if pod is None or not _runs(s, pod, trial):
        return Verdict.POD_GONE, 0.0
    rest = (part for uid, part in _window(s).pods.items() if uid not in {trial.uid, *s.sick})
    took_ms = full_step_ms(s, trial.budget, share, total_shares(rest))
    breaks_itl, is_over = _breaks_itl(s, share), s.now_s - s.memory.trial_at_s >= LONGEST_S
    if trial.probes:
        if breaks_itl or s.ttft_violated:
            return Verdict.STOPPED, took_ms
        return (Verdict.LEARNED if is_over else Verdict.OPEN), took_ms
    if breaks_itl:
        return Verdict.FAILED, took_ms
    if share.at_budget >= LEAST_FULL_STEPS:
        allowed_ms = (1 - s.margin / 2) * (s.itl_target_ms or float("inf"))
        return (Verdict.HELD if took_ms <= allowed_ms else Verdict.FAILED), took_ms
    return (Verdict.NOT_USED if is_over else Verdict.OPEN), took_ms


def _runs(s: Situation, pod: PodObservation, trial: Trial) -> bool:
    """Whether the pod works with the budget, or may not have taken it yet."""
    effective = pod.tunables.effective if pod.tunables is not None else 0
    return effective == trial.budget or s.now_s - s.memory.trial_at_s < 2 * TAKES_S


def _breaks_itl(s: Situation, share: PodShare) -> bool:
    """Whether the pod's own samples prove that it misses an ITL objective."""
    own = Window(start_s=0.0, end_s=0.0, steps=share.steps, slo=share.slo)
    return is_missed(s.itl_objectives, own)


def _window(s: Situation) -> Window:
    return s.fleet.since(s.memory.trial_at_s + TAKES_S)


def _can_try(pod: PodObservation, budget: int) -> bool:
    is_told = pod.tunables is not None and pod.tunables.floor <= budget <= pod.tunables.ceiling
    return is_told and pod.data is DataClass.FRESH


def rolled_back(s: Situation, trial: Trial, verdict: Verdict, took_ms: float = 0.0) -> Move:
    """The pod that tries a budget gets the agreed one; only what failed is remembered."""
    now, memory = s.knobs, s.memory
    why = {
        Verdict.FAILED: f"there a full step took {phrases.ms(took_ms)}, or ITL was missed",
        Verdict.NOT_USED: f"hardly a step there used the whole of it in {LONGEST_S:.0f} s",
        Verdict.LEARNED: "its steps have taught the model what there was to learn",
        Verdict.STOPPED: "an objective is missed, and it was only to learn from",
        Verdict.UNJUDGED: "its time is over, or what it is judged by is gone",
        Verdict.POD_GONE: "the pod does not run with it any more",
    }[verdict]
    if verdict is Verdict.FAILED:
        memory = _remembered(s, trial)
    return Move(
        knob=Knob.BUDGET,
        before=trial.budget,
        after=now.max_num_batched_tokens,
        reason=Reason.CANARY_ROLLED_BACK,
        message=f"Budget {now.max_num_batched_tokens} again on the pod that tried "
        f"{trial.budget}: {why}.",
        tunables=now,
        memory=memory,
        takes_back=True,
    )


def _remembered(s: Situation, trial: Trial) -> Memory:
    """What has failed is proven by nobody, the pod that tried it included."""
    return replace(
        s.memory,
        proven_budget=min(s.memory.proven_budget, s.knobs.max_num_batched_tokens),
        failed_budget=trial.budget,
        failed_at_s=s.now_s,
        failed_rows=s.plant.workload.rows_p95,
    )
