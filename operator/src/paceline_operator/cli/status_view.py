"""`status`: objectives, live knobs and replicas as tables."""

from __future__ import annotations

from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from paceline_operator.api.choice import SloVerdict
from paceline_operator.api.status import Condition, InferenceServiceStatus
from paceline_operator.cli import wording
from paceline_operator.cli.knob_story import title, valued
from paceline_operator.cli.plain_text import one_line
from paceline_operator.cli.service import Service

RECOMMEND_ONLY = "RecommendOnly"
_SHOWN = (
    *("Ready", "Reconciling", "SLOMet", "SLOFeasible"),
    *("MetricsFresh", "ScalingLimited", "Conflict", "Stalled"),
)
_VERDICT_STYLES: dict[SloVerdict | None, str] = {
    SloVerdict.HELD: "green",
    SloVerdict.MISSED: "red",
}
_BAD_WHEN_TRUE = {"Reconciling", "ScalingLimited", "Conflict", "Stalled"}


def render(service: Service, now: datetime) -> RenderableType:
    """The whole view."""
    parts: list[RenderableType] = [_title(service)]
    if service.status.slos:
        parts.append(_objectives(service.status, now))
        open_ = ((slo.name, wording.edges(slo)) for slo in service.status.slos)
        parts.extend(Text(f"{name}: {text}.") for name, text in open_ if text)
    parts.append(_knobs(service.status))
    told = (*calendar(service.status), *modes(service.status), *recommended(service.status))
    parts.extend(Text(said) for said in told)
    parts.append(_conditions(service.status))
    parts.append(_last(service.status, now))
    return Group(*parts)


def _title(service: Service) -> Text:
    text = Text(f"{service.namespace}/{service.name}", style="bold")
    said = unseen(service)
    if said is not None:
        text.append(f"  {said}", style="yellow")
    return text


def unseen(service: Service) -> str | None:
    """That the status is about an older spec; None where it is not."""
    is_old = service.status.observed_generation < service.generation
    return "the operator has not seen the newest spec yet" if is_old else None


def calendar(status: InferenceServiceStatus) -> tuple[str, ...]:
    """What schedules and freeze windows say, in sentences; none where there are none."""
    found = status.calendar
    if found is None:
        return ()
    by = f', by the schedule "{found.schedule}"' if found.schedule else ""
    said = [f"At least {wording.counted(found.min_replicas, 'replica')}{by}."]
    if found.min_replicas_changes_at is not None:
        said.append(f"From {found.min_replicas_changes_at} on at least {found.next_min_replicas}.")
    if found.frozen_by is not None:
        until = "" if found.frozen_until is None else f" until {found.frozen_until}"
        said.append(f'Moves are frozen by the window "{found.frozen_by}"{until}.')
    elif found.next_freeze_at is not None:
        said.append(f"The next freeze window opens at {found.next_freeze_at}.")
    return tuple(said)


def modes(status: InferenceServiceStatus) -> tuple[str, ...]:
    """Which modes the installation lowers; nothing where it lowers none."""
    found = status.modes
    if found is None:
        return ()
    both = {"tuning": found.tuning.value, "scaling": found.scaling.value}
    said = " and ".join(f"{name} is {both[name]}" for name in found.lowered if name in both)
    return (f"The installation allows no more (maxMode): {said}.",)


def recommended(status: InferenceServiceStatus) -> tuple[str, ...]:
    """Which knobs another value is recommended for that the mode does not let be set."""
    wished = (each for each in status.knobs if each.guard == RECOMMEND_ONLY)
    return tuple(
        f"{title(each.knob)}: {valued(each.knob, each.before)} -> "
        f"{valued(each.knob, each.after)} is recommended, not done."
        for each in wished
        if each.before != each.after
    )


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column)
    return table


def _objectives(status: InferenceServiceStatus, now: datetime) -> Table:
    table = _table(
        "OBJECTIVE", "MEASURED", "TARGET", "ATTAINED", "WANTED", "VERDICT", "SAMPLES",
        "BURN 1h/6h", "AGE",
    )  # fmt: skip
    for slo in status.slos:
        verdict = wording.verdict(slo)
        table.add_row(
            wording.objective(slo),
            wording.latency(slo.measured_ms),
            wording.latency(slo.target_ms),
            wording.attained(slo),
            f"{slo.percentile} %",
            Text(wording.said(verdict), style=_VERDICT_STYLES.get(verdict, "")),
            str(slo.samples),
            wording.burns(slo),
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
            # Messages hold square brackets, which a string would have taken for markup.
            words = (Text(found.reason), Text(one_line(found.message)))
            table.add_row(kind, Text(found.status, style=style), *words)
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
    return Text(
        f"Last decision, {when} ago: {wording.decided(decision)}. {one_line(decision.message)}"
    )
