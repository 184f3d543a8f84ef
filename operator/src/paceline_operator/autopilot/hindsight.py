"""What was measured after a move, to be held against what was expected of it."""

from __future__ import annotations

from dataclasses import replace

from paceline_operator.api.v1alpha1 import SloMetric
from paceline_operator.autopilot.measurement.attainment import measure
from paceline_operator.autopilot.plant.law import Law
from paceline_operator.autopilot.plant.plant import Plant
from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary.decision import Decision, Inputs, Knob, Observation
from paceline_operator.autopilot.vocabulary.memory import Awaited, Memory
from paceline_operator.autopilot.vocabulary.window import Counter, Latency, StepClass, Window

LONGEST_S = 240.0
"""Measurements are kept for five minutes: later nothing of the beginning is left to judge by."""
_Z95 = 1.645
_TAIL = 0.05
_LEAST_S = 4.0


def look_back(
    s: Situation, memory: Memory, decisions: tuple[Decision, ...]
) -> tuple[tuple[Observation, ...], Memory]:
    """What is to be told now of earlier moves, and the memory that awaits the rest.

    A move is judged when it is due, or when the next move of its knob ends what it shows.

    Args:
        s: Situation now.
        memory: Memory after the decisions.
        decisions: Of this tick.
    """
    made = tuple(each for each in decisions if each.applied and each.expected is not None)
    moved = {each.knob.value for each in decisions if each.applied}
    told, kept = [], []
    for each in memory.awaited:
        if each.knob not in moved and s.now_s < each.due_s:
            kept.append(each)
            continue
        figures = _measured(s, each)
        if figures is not None:
            told.append(
                Observation(knob=Knob(each.knob), moved_at_s=each.moved_at_s, figures=figures)
            )
    if not told and not made and len(kept) == len(memory.awaited):
        return (), memory
    new = tuple(_awaited(s, memory, each) for each in made)
    return tuple(told), replace(memory, awaited=(*kept, *new))


def _awaited(s: Situation, memory: Memory, decision: Decision) -> Awaited:
    is_trial = memory.trial is not None and decision.knob is Knob.BUDGET
    due_s = s.now_s if decision.expected is None else decision.expected.due_s
    return Awaited(
        knob=decision.knob.value,
        moved_at_s=s.now_s,
        after=decision.after or 0,
        due_s=due_s,
        law_ms=_coefficients(s.plant),
        uid=memory.trial.uid if is_trial and memory.trial is not None else "",
    )


def _coefficients(plant: Plant) -> tuple[float, ...]:
    law = plant.prefill.law
    return (
        law.base_ms,
        law.per_prefill_token_ms,
        law.per_decode_row_ms,
        law.per_kv_token_ms,
        law.per_chunk_context_ms,
    )


def _law(awaited: Awaited) -> Law:
    base, per_token, per_row, per_kv, per_context = awaited.law_ms
    return Law(
        base_ms=base,
        per_prefill_token_ms=per_token,
        per_decode_row_ms=per_row,
        per_kv_token_ms=per_kv,
        per_chunk_context_ms=per_context,
    )


def _measured(s: Situation, awaited: Awaited) -> Inputs | None:
    """Since the move; None where nothing was measured."""
    window = s.fleet.since(max(awaited.moved_at_s, s.now_s - LONGEST_S, _served_since(s, awaited)))
    if window.length_s < _LEAST_S:
        return None
    if awaited.uid:
        return _of_pod(s, awaited, window)
    figures: Inputs = {"overS": window.length_s, "servingPods": len(s.fleet.serving)}
    figures |= _steps(window, awaited)
    received = window.offered_tokens / window.length_s
    figures["offeredRps"] = received / max(1.0, s.plant.workload.prompt_mean)
    first = window.histogram(Latency.TTFT).quantile(s.terms(1).ttft_share)
    if s.policy.of_metric(SloMetric.TTFT) and first is not None:
        figures["ttftMs"] = 1e3 * first
    return figures | _attained(s, window)


def _attained(s: Situation, window: Window) -> Inputs:
    found = ((each.name, measure(each, window).attainment) for each in s.policy.steering)
    return {f"attainment.{name}": share for name, share in found if share is not None}


def _of_pod(s: Situation, awaited: Awaited, window: Window) -> Inputs | None:
    """The same of a pod that alone was moved; None where it did nothing."""
    share = window.pods.get(awaited.uid)
    if share is None or not share.moments().count:
        return None
    own = replace(
        window, steps=share.steps, slo=share.slo, histograms={},
        counters={Counter.STEPS_AT_BUDGET: share.at_budget},
    )  # fmt: skip
    figures: Inputs = {"overS": window.length_s, "tryingPods": 1}
    return figures | _steps(own, awaited) | _attained(s, own)


def _served_since(s: Situation, awaited: Awaited) -> float:
    """Of replicas ordered: since the newest serves; what came before shows the want of it."""
    if awaited.knob != Knob.REPLICAS.value:
        return 0.0
    ready = (pod.ready_since_s or 0.0 for pod in s.fleet.serving)
    return max((at_s for at_s in ready if at_s >= awaited.moved_at_s), default=0.0)


def _steps(window: Window, awaited: Awaited) -> Inputs:
    """Steps as measured; their mean also by the law as it was, for exactly what they carried."""
    figures: Inputs = {}
    seen = window.moments(StepClass.MIXED, StepClass.PREFILL_ONLY)
    if seen.count:
        figures["promptSteps"] = seen.count
        figures["fullSteps"] = full = window.count(Counter.STEPS_AT_BUDGET)
        if full >= _TAIL * seen.count:  # then the longest steps are full ones
            figures["fullStepMs"] = 1e3 * (seen.mean("t") + _Z95 * seen.spread("t"))
        figures["promptStepMeanMs"] = 1e3 * seen.mean("t")
        if len(awaited.law_ms) == len("npdkx"):
            loads = [seen.mean(variable) for variable in "pdkx"]
            figures["promptStepMeanPredictedMs"] = _law(awaited).time_ms(*loads)
    decode = window.moments(StepClass.DECODE_ONLY)
    if decode.count:
        figures["decodeStepMs"] = 1e3 * (decode.mean("t") + _Z95 * decode.spread("t"))
    return figures
