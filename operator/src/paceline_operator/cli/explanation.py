"""`explain`: in sentences what was measured, what was considered, what binds, what changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from paceline_operator.api.status import DecisionStatus, InferenceServiceStatus, SloStatus
from paceline_operator.cli import status_view, wording
from paceline_operator.cli.hindsight_text import compared
from paceline_operator.cli.knob_story import KnobStory, story
from paceline_operator.cli.plain_text import one_line
from paceline_operator.cli.service import Service

_QUIET = {
    "Stalled": ("False",),
    "Ready": ("True",),
    "Reconciling": ("False",),
    "SLOMet": ("True", "Unknown"),
    "SLOFeasible": ("True",),
    "MetricsFresh": ("True",),
    "ScalingLimited": ("False",),
    "Conflict": ("False",),
}
"""Conditions in the order they are told, and the statuses that nothing has to be said of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Sentences by topic, each list in reading order."""

    summary: str
    measured: tuple[str, ...]
    considered: tuple[str, ...]
    knobs: tuple[KnobStory, ...]
    binding: tuple[str, ...]
    changes: tuple[str, ...]

    def text(self) -> str:
        """The whole, with headings."""
        blocks = [
            self.summary,
            _topic("Measured", self.measured),
            _topic("Considered", self.considered),
            *(knob.text() for knob in self.knobs),
            _topic("What binds", self.binding),
            _topic("Last changes", self.changes),
        ]
        return "\n\n".join(block for block in blocks if block)


def _topic(title: str, said: tuple[str, ...]) -> str:
    return "\n".join([title, *(f"  {one_line(sentence)}" for sentence in said)]) if said else ""


def explain(service: Service, now: datetime) -> Explanation:
    """Everything the status tells, in sentences."""
    status = service.status
    return Explanation(
        summary=_summary(service),
        measured=tuple(_measured(slo, now) for slo in status.slos) or (_unmeasured(service),),
        considered=_considered(status),
        knobs=tuple(story(each, now) for each in status.knobs),
        binding=_binding(service, now),
        changes=tuple(_change(each, now) for each in reversed(status.decisions))
        or ("The autopilot has not moved anything yet.",),
    )


def _unmeasured(service: Service) -> str:
    return "Nothing is measured yet." if service.spec.get("slos") else "No objective is set."


def _summary(service: Service) -> str:
    status, budget = service.status, service.status.budget
    wanted = wording.number(status.desired_replicas)
    said = f"{service.namespace}/{service.name}: {status.ready_replicas} of {wanted} replicas ready"
    if budget.desired is None:
        return f"{said}; the live knobs are not agreed yet."
    if budget.step_time_target_ms is not None:
        return (
            f"{said}; engines size each step for {wording.latency(budget.step_time_target_ms)}, "
            f"{budget.desired} tokens at most ({budget.acknowledged} of {budget.total} agree), "
            f"with at most {wording.number(budget.running_seqs)} sequences at once.{_trial(status)}"
        )
    return (
        f"{said}; token budget {wording.number(budget.effective)} in force "
        f"({budget.desired} wanted, {budget.acknowledged} of {budget.total} engines agree), "
        f"at most {wording.number(budget.running_seqs)} sequences at once.{_trial(status)}"
    )


def _trial(status: InferenceServiceStatus) -> str:
    """That one pod has another budget, as long as the operator keeps it so."""
    found = (status.memory or {}).get("trial")
    if not isinstance(found, Mapping) or "budget" not in found:
        return ""
    return f" One pod of {status.budget.total} is trying a budget of {found['budget']}."


def _measured(slo: SloStatus, now: datetime) -> str:
    name, target = wording.objective(slo), wording.latency(slo.target_ms)
    if slo.attainment_percent is None:
        last = "yet" if slo.measured_at is None else "in its window"
        when = (
            "" if slo.measured_at is None else f", the last {wording.age(slo.measured_at, now)} ago"
        )
        return f"{name}: no samples {last}{when}; the target is {target}."
    verdict = wording.said(wording.verdict(slo))
    why = wording.edges(slo)
    return (
        (
            f"{name} is {verdict}: {wording.attained(slo)} within {target}, "
            f"{slo.percentile} % wanted; measured {wording.latency(slo.measured_ms)} over "
            f"{wording.counted(slo.samples, 'sample')}, {wording.age(slo.measured_at, now)} ago."
        )
        + _burn(slo)
        + ("" if why is None else f" {why[0].upper()}{why[1:]}.")
    )


def _burn(slo: SloStatus) -> str:
    if slo.burn_hour is None:
        return ""
    return f" Error budget burn: {slo.burn_hour:.1f} over 1 h" + (
        "." if slo.burn_six_hours is None else f", {slo.burn_six_hours:.1f} over 6 h."
    )


def _considered(status: InferenceServiceStatus) -> tuple[str, ...]:
    if not status.model:
        return ("No engine step was seen yet, so there is no step-time model.",)
    trust = "trusted" if status.model.get("trusted") else "still being learned"
    model = wording.figures(status.model)
    said = [f"The step-time model is {trust}, from {model.get('steps', 0):.0f} engine steps."]
    said.append(_law(model))
    if status.budget.step_time_target_ms is not None:
        only = wording.latency(model.get("decodeStepMs"))
        said.append(f"A step that only decodes takes {only}.")
    elif model.get("budgetStepMs") is not None:
        said.append(
            f"A step that uses the whole budget{_of(model)} takes "
            f"{wording.latency(model['budgetStepMs'])}, "
            f"one that only decodes {wording.latency(model.get('decodeStepMs'))}."
        )
    for name, factor in sorted(wording.figures(status.model.get("slowPods")).items()):
        said.append(
            f"Pod {name} takes {factor:.2f} times as long for a step as the others; the model and "
            "the live knobs leave it out."
        )
    if model.get("budgetCap") is not None:
        said.append(f"The ITL target allows steps of up to {model['budgetCap']:.0f} tokens.")
    if model.get("capacityRps") is not None:
        said.append(
            f"One replica holds {model['capacityRps']:.2f} requests/s within the objectives."
        )
    return tuple(said)


def _of(model: Mapping[str, float]) -> str:
    """Which budget: the header's may be newer, or wait to be acknowledged."""
    budget = model.get("budget")
    return "" if budget is None else f" of {budget:.0f} tokens"


def _change(decision: DecisionStatus, now: datetime) -> str:
    said = f"{wording.age(decision.time, now)} ago: {wording.decided(decision)}. {decision.message}"
    return " ".join((said, *compared(decision)))


def _law(model: Mapping[str, float]) -> str:
    return (
        f"Step time = {model.get('baseMs', 0):.3g} ms + {model.get('perPrefillTokenMs', 0):.3g} "
        f"per prompt token + {model.get('perDecodeRowMs', 0):.3g} per decoding sequence + "
        f"{1e3 * model.get('perKvTokenMs', 0):.3g} per 1000 KV tokens."
    )


def _binding(service: Service, now: datetime) -> tuple[str, ...]:
    status = service.status
    unseen = status_view.unseen(service)
    said = [] if unseen is None else [f"{unseen[0].upper()}{unseen[1:]}."]
    decision = status.last_decision
    if decision is not None and not status.knobs:  # else each knob tells its own
        when = wording.age(decision.time, now)
        said.append(f"Last decision, {when} ago: {wording.decided(decision)}. {decision.message}")
    known = {c.type: c for c in status.conditions}
    for kind, quiet in _QUIET.items():
        found = known.get(kind)
        if found is not None and found.status not in quiet:
            said.append(f"{kind} is {found.status} ({found.reason}): {found.message}")
    said += [*status_view.calendar(status), *status_view.modes(status)]
    said += _floor(service)
    return tuple(said) or ("Nothing: no limit, and no condition that is out of order.",)


def _floor(service: Service) -> list[str]:
    """That the least budget asked for is none that engines take."""
    asked = service.spec.get("engine", {}).get("batchTokens", {}).get("min")
    for knob in service.status.knobs:
        found = wording.figures(knob.inputs)
        floor, seqs = found.get("budgetFloor"), found.get("runningSeqs")
        if floor is not None and seqs is not None and isinstance(asked, int) and asked < floor:
            return [
                f"batchTokens.min is {asked}: with up to {seqs:.0f} sequences at once engines take "
                f"no budget below {floor:.0f}."
            ]
    return []
