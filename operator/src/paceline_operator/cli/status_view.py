"""`status`: objectives, live knobs and replicas as tables."""

from __future__ import annotations

from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from paceline_operator.api.status import Condition, InferenceServiceStatus
from paceline_operator.cli import wording
from paceline_operator.cli.service import Service

_SHOWN = ("Ready", "SLOMet", "SLOFeasible", "MetricsFresh", "ScalingLimited", "Conflict", "Stalled")
_BAD_WHEN_TRUE = {"ScalingLimited", "Conflict", "Stalled"}


def render(service: Service, now: datetime) -> RenderableType:
    """The whole view."""
    parts: list[RenderableType] = [_title(service)]
    if service.status.slos:
        parts.append(_objectives(service.status, now))
    parts.append(_knobs(service.status))
    parts.append(_conditions(service.status))
    parts.append(_last(service.status, now))
    return Group(*parts)


def _title(service: Service) -> Text:
    text = Text(f"{service.namespace}/{service.name}", style="bold")
    if service.status.observed_generation < service.generation:
        text.append("  the operator has not seen the newest spec yet", style="yellow")
    return text


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column)
    return table


def _objectives(status: InferenceServiceStatus, now: datetime) -> Table:
    table = _table("OBJECTIVE", "MEASURED", "TARGET", "ATTAINED", "WANTED", "SAMPLES", "AGE")
    for slo in status.slos:
        style = {True: "green", False: "red", None: ""}[wording.held(slo)]
        table.add_row(
            wording.objective(slo),
            wording.latency(slo.measured_ms),
            wording.latency(slo.target_ms),
            Text(wording.share(slo.attainment_percent), style=style),
            f"{slo.percentile} %",
            str(slo.samples),
            wording.age(slo.measured_at, now),
        )
    return table


def _knobs(status: InferenceServiceStatus) -> Table:
    budget = status.budget
    table = _table("KNOB", "DESIRED", "IN FORCE", "STATE")
    table.add_row(
        "token budget",
        wording.number(budget.desired),
        wording.number(budget.effective),
        f"acknowledged by {budget.acknowledged} of {budget.total} (revision {budget.revision})",
    )
    table.add_row("running sequences", wording.number(budget.running_seqs), "", "")
    if budget.step_time_target_ms is not None:
        table.add_row("step time", wording.latency(budget.step_time_target_ms), "", "")
    table.add_row(
        "replicas",
        wording.number(status.desired_replicas),
        str(status.ready_replicas),
        f"{status.replicas} exist",
    )
    return table


def _conditions(status: InferenceServiceStatus) -> Table:
    table = _table("CONDITION", "STATUS", "REASON", "MESSAGE")
    known = {condition.type: condition for condition in status.conditions}
    for kind in _SHOWN:
        if kind in known:
            found = known[kind]
            style = _style(found)
            table.add_row(kind, Text(found.status, style=style), found.reason, found.message)
    return table


def _style(condition: Condition) -> str:
    if condition.status == "Unknown":
        return "yellow"
    good = (condition.status == "True") is not (condition.type in _BAD_WHEN_TRUE)
    return "green" if good else "red"


def _last(status: InferenceServiceStatus, now: datetime) -> Text:
    decision = status.last_decision
    if decision is None:
        return Text("No decision yet.")
    when = wording.age(decision.time, now)
    return Text(f"Last decision, {when} ago: {wording.decided(decision)}. {decision.message}")
