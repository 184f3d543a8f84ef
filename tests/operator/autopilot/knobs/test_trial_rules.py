"""A budget beyond what full steps have proven is tried on one pod, and judged by its steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline_operator.api.v1alpha1 import Mode, SloMetric
from paceline_operator.autopilot.hindsight import look_back
from paceline_operator.autopilot.knobs import loop as knob_loop
from paceline_operator.autopilot.knobs.trial_rules import (
    FAILED_LASTS_S,
    failed,
    full_step_ms,
    judge_trial,
    trial_move,
)
from paceline_operator.autopilot.learning import learned
from paceline_operator.autopilot.situation.situation import Situation, understand
from paceline_operator.autopilot.vocabulary.decision import Action, Reason, SetTunables
from paceline_operator.autopilot.vocabulary.fleet import DataClass, PodObservation, Trial, Tunables
from paceline_operator.autopilot.vocabulary.memory import (
    Awaited,
    Memory,
    PodPace,
    dump_memory,
    load_memory,
)
from paceline_operator.autopilot.vocabulary.move import Move
from paceline_operator.autopilot.vocabulary.window import (
    TERMS,
    Counter,
    Moments,
    PodShare,
    SloCounts,
    StepClass,
    Window,
    merge,
    slo_key,
)
from tests.operator.autopilot.build import ITL, TTFT, auto, fleet, moments, pod, window
from tests.operator.autopilot.plant.test_pace import uids, watched
from tests.operator.autopilot.situation.test_situation import objective, wanting

NOW_S, BEGUN_S, TRIED = 2000.0, 1980.0, 640
TRIAL = Trial(uid="uid-1", budget=TRIED)
LEARNED = watched(uids(1.0, 1.0), 60)
FULL_S = (18.0 + 0.1 * (TRIED - 8) + 0.3 * 8 + 1e-4 * 5600) / 1e3


def share(factor: float, full: int, *, budget: int = TRIED, bad: float = 0.0) -> PodShare:
    """Of one slice: full steps of a budget, some small ones, and samples of ITL."""
    chunk = float(budget - 8)
    took_s = factor * (18.0 + 0.1 * chunk + 0.3 * 8 + 1e-4 * 5600) / 1e3
    small = (100.0, 8.0, 5600.0, 5e3, (18.0 + 10.0 + 2.4 + 0.56) / 1e3)
    steps = moments(*[(chunk, 8.0, 5600.0, 50 * chunk, took_s)] * full, *[small] * 20)
    counts = {slo_key(ITL, "ITL", 100): SloCounts(100.0 - bad, bad)}
    return PodShare({StepClass.MIXED: steps}, float(full), counts)


def slice_at(start_s: float, shares: dict[str, PodShare]) -> Window:
    parts = [
        window(start_s, start_s + 5, steps=each.steps, slo=each.slo, pods={uid: each},
               counters={Counter.STEPS_AT_BUDGET: each.at_budget,
                         Counter.REQUESTS_RECEIVED: 20.0, Counter.PROMPT_TOKENS_RECEIVED: 9000.0})
        for uid, each in shares.items()
    ]  # fmt: skip
    return merge(parts)


def pods(number: int = 3, *, effective: int = TRIED, **more: Any) -> tuple[PodObservation, ...]:
    base = pod().tunables
    assert base is not None
    first = pod(1, tunables=replace(base, effective=effective), **more)
    return (first, *(pod(n + 1) for n in range(1, number)))


def situation(
    tried: PodShare,
    control: PodShare | None = None,
    *,
    fleet_of: tuple[PodObservation, ...] | None = None,
    memory: Memory | None = None,
    begun_s: float = BEGUN_S,
) -> Situation:
    """Twenty seconds after a trial began on the first of three pods; 512 tokens for the others."""
    others = {} if control is None else {"uid-2": control, "uid-3": control}
    starts = (BEGUN_S, BEGUN_S + 5, BEGUN_S + 10, BEGUN_S + 15)
    slices = tuple(slice_at(start_s, {"uid-1": tried, **others}) for start_s in starts)
    known = replace(memory or LEARNED, trial=TRIAL, trial_at_s=begun_s, raised_at_s=begun_s,
                    learned_until_s=NOW_S, proven_budget=512, proven_at_s=NOW_S)  # fmt: skip
    seen = fleet(pods=pods() if fleet_of is None else fleet_of, slices=slices, now_s=NOW_S)
    return understand(auto(1000, 100), seen, known, NOW_S)


SOUND = share(1.0, 10)
CONTROL = share(1.0, 10, budget=512)


def judged(s: Situation) -> Move:
    move = judge_trial(s)
    assert move is not None
    return move


def test_a_budget_whose_full_steps_keep_the_target_is_for_all() -> None:
    move = judged(situation(SOUND, CONTROL))
    assert (move.reason, move.before, move.after) == (Reason.CANARY_HELD, 512, TRIED)
    assert move.trial is None
    assert move.memory is not None
    assert move.memory.proven_budget == TRIED
    assert "on all pods: on the one that tried it a full step took 84 ms" in move.message


@pytest.mark.parametrize("tried", [share(1.3, 10), share(1.0, 10, bad=60.0)], ids=["steps", "ITL"])
def test_one_whose_steps_are_too_long_is_taken_back_and_remembered(tried: PodShare) -> None:
    move = judged(situation(tried, CONTROL))
    assert (move.reason, move.action) == (Reason.CANARY_ROLLED_BACK, Action.LOWER)
    assert move.tunables == Tunables(max_num_batched_tokens=512, max_num_running_seqs=64)
    assert (move.trial, move.memory and move.memory.failed_budget) == (None, TRIED)


def test_a_trial_is_not_judged_by_an_objective_that_nothing_meets() -> None:
    objectives = hopeless, other = (
        objective(SloMetric.ITL, 5, 90),
        objective(SloMetric.ITL, 100, 95),
    )
    missed = {slo_key(hopeless.name, "ITL", 5): SloCounts(0.0, 100.0),
              slo_key(other.name, "ITL", 100): SloCounts(100.0, 0.0)}  # fmt: skip
    known = replace(LEARNED, decode_fit=wanting(*objectives).memory.decode_fit)
    s = situation(replace(SOUND, slo=missed), CONTROL, memory=known)
    s = replace(s, policy=replace(s.policy, objectives=objectives))
    assert s.itl_objectives == (other,)
    assert judged(s).reason is Reason.CANARY_HELD
    alone = replace(s, policy=replace(s.policy, objectives=(hopeless,)))
    assert judged(alone).reason is Reason.CANARY_ROLLED_BACK


def test_full_steps_are_told_from_the_sums_over_all_steps() -> None:
    s = situation(SOUND, CONTROL)
    for factor in (1.0, 1.3, 2.0):
        took_ms = full_step_ms(s, TRIED, share(factor, 10), CONTROL)
        assert took_ms == pytest.approx(1e3 * factor * FULL_S, rel=0.05)


def test_what_has_slowed_all_pods_is_not_held_against_the_budget_alone() -> None:
    """The control group of the same time: its ratio is what the law is wrong by now."""
    s = situation(SOUND, CONTROL)
    slowed = PodShare({StepClass.MIXED: scaled(share(1.0, 10), 1.1)}, 10.0, {})
    control = PodShare({StepClass.MIXED: scaled(CONTROL, 1.1)}, 10.0, {})
    alone = full_step_ms(s, TRIED, slowed, PodShare())
    together = full_step_ms(s, TRIED, slowed, control)
    assert together == pytest.approx(1.1e3 * FULL_S, rel=0.05)
    assert alone > together


def scaled(share_: PodShare, factor: float) -> Moments:
    found = share_.moments()
    sums = list(found.sums)
    for place, term in enumerate(TERMS):
        sums[place] *= factor ** term.count("t")
    return Moments(tuple(sums))


def test_a_pod_alone_is_held_against_the_law() -> None:
    alone = pods(1)
    assert judged(situation(SOUND, fleet_of=alone)).reason is Reason.CANARY_HELD
    assert judged(situation(share(1.4, 10), fleet_of=alone)).reason is Reason.CANARY_ROLLED_BACK


def test_without_full_steps_it_stays_open_for_a_minute_and_then_ends_unremembered() -> None:
    few = share(1.0, 1)
    assert judge_trial(situation(few, CONTROL)) is None
    move = judged(situation(few, CONTROL, begun_s=NOW_S - 60))
    assert move.reason is Reason.CANARY_ROLLED_BACK
    assert move.memory is not None
    assert move.memory.failed_budget == 0


@pytest.mark.parametrize(
    "left",
    [(pod(2), pod(3)), pods(effective=512), pods(draining=True)],
    ids=["deleted", "restarted with the agreed values", "drained"],
)
def test_it_ends_with_its_pod(left: tuple[PodObservation, ...]) -> None:
    move = judged(situation(SOUND, CONTROL, fleet_of=left))
    assert move.reason is Reason.CANARY_ROLLED_BACK
    assert "does not run with it any more" in move.message
    assert move.memory is not None
    assert move.memory.failed_budget == 0


def test_the_loop_executes_it_and_forgets_the_trial() -> None:
    outcome = knob_loop.run(situation(share(1.3, 10), CONTROL))
    assert outcome.actions == (
        SetTunables(Tunables(max_num_batched_tokens=512, max_num_running_seqs=64)),
    )
    assert outcome.memory.trial is None
    assert outcome.memory.lowered_at_s == NOW_S
    assert outcome.decisions[0].applied


def test_a_trial_survives_the_status() -> None:
    memory = Memory(trial=TRIAL, trial_at_s=5.0)
    assert load_memory(dump_memory(memory)) == memory


def test_a_mode_that_ends_tuning_ends_it() -> None:
    s = situation(SOUND, CONTROL)
    off = replace(s, policy=replace(s.policy, tuning_mode=Mode.RECOMMEND))
    outcome = knob_loop.run(off)
    assert (outcome.actions, outcome.memory.trial) == ((), None)


@pytest.mark.parametrize(
    ("budget", "ago_s", "rows", "stays"),
    [
        (TRIED, 60.0, 8.0, True),
        (TRIED + 128, 60.0, 8.0, True),
        (TRIED - 16, 60.0, 8.0, False),
        (TRIED, FAILED_LASTS_S + 1, 8.0, False),
        (TRIED, 60.0, 16.0, False),
    ],
    ids=["the same", "larger", "smaller", "long ago", "under heavier load"],
)
def test_what_failed_is_not_tried_again_soon(
    budget: int, ago_s: float, rows: float, stays: bool
) -> None:
    memory = replace(LEARNED, failed_budget=TRIED, failed_at_s=NOW_S - ago_s, failed_rows=rows)
    assert failed(situation(SOUND, CONTROL, memory=memory), budget) is stays


def test_a_sound_and_fresh_pod_tries() -> None:
    sick = PodPace(uid="uid-1", slower=2.0, slow_since_s=0.0, sick=True)
    s = situation(SOUND, CONTROL, memory=replace(LEARNED, paces=(sick,)))
    move = trial_move(s, 768, Reason.TTFT_PRESSURE, "Late.")
    assert move is not None
    assert move.trial == Trial(uid="uid-2", budget=768)
    assert (move.reason, move.guard) == (Reason.TTFT_PRESSURE, Reason.CANARY)
    assert (move.before, move.after, move.tunables) == (512, 768, s.knobs)
    assert "Budget 512 -> 768 on pod-2 alone at first: Late." in move.message
    stale = replace(s.fleet, pods=tuple(replace(p, data=DataClass.STALE) for p in s.fleet.pods))
    assert trial_move(replace(s, fleet=stale), 768, Reason.TTFT_PRESSURE, "") is None
    assert trial_move(s, 4096, Reason.TTFT_PRESSURE, "") is None


def pressed(**memory: Any) -> Situation:
    """First tokens are late, and nothing larger than the budget of 512 has been proven."""
    late = {slo_key(TTFT, "TTFT", 1000): SloCounts(20, 80), slo_key(ITL, "ITL", 100): SloCounts(9)}
    slices = tuple(
        replace(slice_at(start_s, {f"uid-{n}": CONTROL for n in (1, 2, 3)}), slo=late)
        for start_s in (BEGUN_S, BEGUN_S + 5, BEGUN_S + 10, BEGUN_S + 15)
    )
    known = replace(LEARNED, learned_until_s=NOW_S, proven_budget=512, proven_at_s=NOW_S, **memory)
    seen = fleet(pods=pods(effective=512), slices=slices, now_s=NOW_S)
    return understand(auto(1000, 100), seen, known, NOW_S)


def test_the_account_of_a_trial_is_of_one_pod_and_leaves_the_others_their_budget() -> None:
    (decision,) = knob_loop.run(pressed()).decisions
    assert (decision.applied, decision.guard) == (True, Reason.CANARY)
    tried = decision.after
    (chosen,) = (each for each in decision.considered if each.chosen)
    assert chosen.value == 512
    (other,) = (each for each in decision.considered if each.value == tried)
    assert "one pod of 3 tries it" in other.message
    assert decision.expected is not None
    assert decision.expected.figures["tryingPods"] == 1
    assert "capacityRps" not in decision.expected.figures
    ends = next(step for step in decision.next_steps if step.waits_for is Reason.CANARY)
    assert (ends.action, ends.value) == (Action.RAISE, tried)
    assert "512" in ends.message
    cut = next(step for step in decision.next_steps if step.action is Action.LOWER)
    assert "full step of 512 tokens" in cut.message


def test_while_it_is_open_each_decision_says_that_one_pod_has_another_budget() -> None:
    (decision,) = knob_loop.run(situation(share(1.0, 1), CONTROL)).decisions
    assert not decision.applied
    assert decision.message.endswith(f"One pod of 3 tries {TRIED}.") or (
        decision.reason is Reason.CANARY
    )
    assert decision.inputs["trialBudget"] == TRIED


def test_what_is_measured_after_it_is_of_that_pod_alone() -> None:
    begun = knob_loop.run(pressed())
    _, memory = look_back(pressed(), begun.memory, begun.decisions)
    (awaited,) = memory.awaited
    assert awaited.uid == "uid-1"
    slow = situation(share(1.5, 10), share(1.0, 40, budget=512), memory=memory)
    later = replace(slow, now_s=NOW_S + 40)
    told, left = look_back(later, replace(memory, awaited=(replace(awaited, moved_at_s=BEGUN_S),)),
                           ())  # fmt: skip
    assert left.awaited == ()
    assert (told[0].figures["tryingPods"], told[0].figures["fullSteps"]) == (1, 40.0)
    assert "offeredRps" not in told[0].figures
    assert "servingPods" not in told[0].figures


def test_its_end_ends_what_is_awaited_of_it() -> None:
    memory = replace(LEARNED, awaited=(
        Awaited(knob="budget", moved_at_s=BEGUN_S, after=TRIED, due_s=NOW_S + 99, uid="uid-1"),
    ))  # fmt: skip
    s = situation(share(1.3, 10), CONTROL, memory=memory)
    outcome = knob_loop.run(s)
    assert outcome.decisions[0].expected is None
    told, left = look_back(s, outcome.memory, outcome.decisions)
    assert ([each.moved_at_s for each in told], left.awaited) == ([BEGUN_S], ())


def test_a_raise_that_failed_is_told_to_wait_for_its_half_hour() -> None:
    failed_s = NOW_S - 600
    s = pressed(failed_budget=528, failed_at_s=failed_s, failed_rows=8.0)
    (decision,) = knob_loop.run(s).decisions
    assert decision.reason is Reason.CANARY_ROLLED_BACK
    step = next(each for each in decision.next_steps if each.action is Action.RAISE)
    assert step.earliest_s == failed_s + FAILED_LASTS_S
    assert step.waits_for is Reason.CANARY_ROLLED_BACK


def test_full_steps_of_the_pod_that_tries_prove_nothing_before_they_are_judged() -> None:
    """Of a fleet of one, too: a budget that fails would be given to all without asking again."""
    alone = (pods(1)[0],)
    memory = replace(LEARNED, trial=TRIAL, trial_at_s=BEGUN_S, proven_budget=512,
                     proven_at_s=BEGUN_S)  # fmt: skip
    for turn in range(4):
        now_s = BEGUN_S + 5.0 * (turn + 1)
        slices = (slice_at(now_s - 5.0, {"uid-1": SOUND}),)
        memory = learned(auto(), fleet(pods=alone, slices=slices, now_s=now_s), memory, now_s)
    assert memory.proven_budget == 512
    failing = replace(situation(share(1.4, 10), fleet_of=alone), memory=replace(
        memory, proven_budget=TRIED))  # fmt: skip
    move = judged(failing)
    assert move.memory is not None
    assert (move.memory.failed_budget, move.memory.proven_budget) == (TRIED, 512)
