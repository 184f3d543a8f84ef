"""Whether the objectives can be met at all, with the arithmetic that says so."""

from __future__ import annotations

from paceline_operator.api.v1alpha1 import Mode, Pause, SloMetric
from paceline_operator.autopilot.measurement.attainment import LEAST_SAMPLES, measure
from paceline_operator.autopilot.plant.capacity import alone_e2e_ms, alone_ttft_ms, around_ms
from paceline_operator.autopilot.situation.scene import RECENT_S
from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary import phrases
from paceline_operator.autopilot.vocabulary.decision import Feasibility, Knob
from paceline_operator.autopilot.vocabulary.policy import Objective


def judge(s: Situation) -> Feasibility:
    """Feasible, infeasible with the reason, or unknown while the model is not trusted."""
    if not s.policy.steering:
        return Feasibility(
            feasible=None, message=f"{phrases.no_objective(len(s.policy.objectives))}."
        )
    if not s.model_trusted:
        alone = _alone_problem(s) if s.decoding_known else None
        if alone is not None:
            return Feasibility(feasible=False, message=alone)
        return Feasibility(feasible=None, message="The step-time model is still learning.")
    problem = _alone_problem(s) or _floor_problem(s) or _ttft_problem(s)
    if problem is not None:
        return Feasibility(feasible=False, message=problem)
    return Feasibility(feasible=True, message=_summary(s))


def within_limits(s: Situation, judged: Feasibility) -> Feasibility:
    """The same, with whole answers, the demand and the replicas there may be taken into account.

    None of them keeps replicas from coming for the other objectives.
    """
    problem = None if judged.feasible is False else _e2e_problem(s)
    if problem is not None:
        return Feasibility(feasible=False, message=problem)
    if judged.feasible is not True or s.overload is None or _all_hold(s):
        return judged
    barrier = _barrier(s)
    if barrier is None:
        return judged
    offered, holds = s.overload
    said = phrases.overload(offered, len(s.fleet.serving), holds)
    return Feasibility(feasible=False, message=f"{said}, and {barrier}.")


def _barrier(s: Situation) -> str | None:
    """What keeps more replicas from coming, None where nothing does."""
    most = s.policy.max_replicas
    if Knob.REPLICAS.value in s.fleet.yielded:
        return "replicas are left to another writer"
    if s.policy.scaling_mode is Mode.OFF:
        return "scaling is Off"
    if s.policy.scaling_mode is Mode.RECOMMEND:
        return "scaling only recommends"
    if s.policy.pause in (Pause.OUT, Pause.ALL):
        return "scaling is paused"
    if most is not None and len(s.fleet.serving) >= most:
        return f"maxReplicas is {most}"
    return None


def _all_hold(s: Situation) -> bool:
    """Whether every objective is measured to hold, whatever the model says of so much load."""
    return all(_holds(s, each) for each in s.steering)


def _holds(s: Situation, objective: Objective) -> bool:
    """What is measured to hold can be met: the model is wrong then, and not the fleet."""
    found = measure(objective, s.fleet.last(RECENT_S))
    return found.met is True and found.samples >= LEAST_SAMPLES


def _alone_problem(s: Situation) -> str | None:
    found = s.policy.of_metric(SloMetric.ITL, SloMetric.TPOT)
    target = min((float(each.target_ms) for each in found if not _holds(s, each)), default=None)
    alone_ms = s.plant.decode_ms(1.0)
    if target is None or alone_ms <= target:
        return None
    return (
        f"One sequence alone needs {phrases.ms(alone_ms)} per token; the ITL target is "
        f"{phrases.ms(target)}. Raise the target or use a faster device."
    )


def _floor_problem(s: Situation) -> str | None:
    target = s.itl_target_ms
    if target is None:
        return None
    floor = s.ladder().floor
    # With one sequence: what many of them add, more replicas take away.
    least_ms = s.plant.full_ms(floor, 1.0)
    if s.cap is None and s.itl_violated and least_ms > (1 - s.margin) * target:
        return (
            f"A step of the smallest budget of {floor} tokens takes "
            f"{phrases.ms(least_ms)} with one sequence; with {100 * s.margin:.0f} % reserve it "
            f"does not fit the ITL target of {phrases.ms(target)}. Raise the target or lower "
            "maxNumSeqs or batchTokens.min."
        )
    return None


def _ttft_problem(s: Situation) -> str | None:
    found = s.policy.of_metric(SloMetric.TTFT)
    hopeless = [each for each in found if s.alone_ms(each) > each.target_ms and not _holds(s, each)]
    if not hopeless:
        return None
    objective = min(hopeless, key=lambda each: each.target_ms)
    budget, share, alone_ms = s.settled_budget, objective.share, s.alone_ms(objective)
    tokens = s.plant.workload.prompt_at(share) * s.plant.workload.computed_share
    return (
        f"A prompt of {tokens:.0f} tokens ({100 * share:.0f}th percentile) needs "
        f"{phrases.ms(alone_ms)} on an idle replica: {tokens:.0f} tokens in steps of {budget} at "
        f"{phrases.ms(s.plant.full_ms(budget, 0.0))} each, and "
        f"{phrases.ms(around_ms(s.plant))} around them; "
        f"the TTFT target is {phrases.ms(objective.target_ms)}. {_ttft_remedy(s)}"
    )


def _ttft_remedy(s: Situation) -> str:
    """What would help: longer steps, where the mode keeps them shorter than they could be."""
    kept_ms, wished_ms = s.knobs.step_time_target_ms, s.step_time_target_ms
    if s.policy.tuning_mode is Mode.AUTO or kept_ms is None:
        return "More replicas cannot help."
    if wished_ms is not None and wished_ms <= kept_ms:
        return "More replicas cannot help."
    wished = "none" if wished_ms is None else phrases.ms(wished_ms)
    return (
        f"Engines keep steps within {phrases.ms(kept_ms)}, {wished} is recommended: "
        f"tuning is {s.policy.tuning_mode.value}."
    )


def _e2e_problem(s: Situation) -> str | None:
    target = min((float(each.target_ms) for each in s.e2e_hopeless), default=None)
    if target is None:
        return None
    tokens, each_ms = s.plant.workload.output_mean, s.plant.decode_ms(1.0)
    return (
        f"A mean answer of {tokens:.0f} tokens needs {phrases.ms(alone_e2e_ms(s.plant))} on an "
        f"idle replica, {phrases.ms(each_ms)} per token; the E2E target is {phrases.ms(target)}. "
        "More replicas cannot help."
    )


def _summary(s: Situation) -> str:
    said = []
    if s.itl_target_ms is not None:
        said.append(_fitting_steps(s, s.itl_target_ms))
    if s.ttft_target_ms is not None:
        alone_ms = alone_ttft_ms(s.plant, s.terms(s.settled_budget))
        said.append(
            f"a long prompt alone starts in {phrases.ms(alone_ms)} of "
            f"{phrases.ms(s.ttft_target_ms)}"
        )
    told = ("By the model, " + ", and ".join(said) + ".") if said else ""
    if s.attainable != (s.ttft_target_ms, s.itl_target_ms):
        told += " What the last minute measured holds all the same."
    return told


def _fitting_steps(s: Situation, target_ms: float) -> str:
    target = f"the ITL target of {phrases.ms(target_ms)}"
    if s.cap is not None:
        return f"steps of up to {s.cap} tokens fit {target}"
    floor, rows = s.ladder().floor, s.plant.workload.rows_p95
    takes = phrases.ms(s.plant.full_ms(floor))
    return (
        f"a step of the smallest budget of {floor} tokens takes {takes} "
        f"beside {rows:.0f} sequences that decode, {target} leaves "
        f"{phrases.ms((1 - s.margin) * target_ms)}"
    )
