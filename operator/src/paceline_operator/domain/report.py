"""The status of one pass, and whether it is worth a write."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from paceline_operator.api.choice import ConditionStatus, SloVerdict
from paceline_operator.api.conditions import (
    ConditionType,
    Verdict,
    find_condition,
    set_condition,
    set_progress,
    timestamp,
)
from paceline_operator.api.status import (
    MAX_DECISIONS,
    BudgetStatus,
    CalendarStatus,
    Condition,
    DecisionStatus,
    ExplainedDecision,
    InferenceServiceStatus,
    ModesStatus,
    SloStatus,
)
from paceline_operator.api.summary import summarize
from paceline_operator.api.v1alpha1 import InferenceServiceSpec
from paceline_operator.autopilot.vocabulary.decision import (
    Action,
    Decision,
    Knob,
    SloMeasurement,
    Tick,
)
from paceline_operator.domain import calendar, explanation, pinned, verdicts
from paceline_operator.domain.names import selector_text
from paceline_operator.domain.verdicts import Sight

MEASURE_EVERY_S = 60.0
DEAD_BAND_PERCENT_POINTS = 1.0
DEAD_BAND_SHARE = 0.05
DEAD_BAND_BURN = 0.25
_MODES = ((Knob.BUDGET, "tuning"), (Knob.REPLICAS, "scaling"))
# Their text holds live figures; a new text alone is no news.
_MEASURED = frozenset(
    {
        ConditionType.METRICS_FRESH,
        ConditionType.SLO_MET,
        ConditionType.SLO_FEASIBLE,
        ConditionType.SCALING_LIMITED,
    }
)
# Those of them that are good news while they are True.
_GOOD = _MEASURED - {ConditionType.SCALING_LIMITED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """What one pass found about one object.

    Attributes:
        name: The object's name.
        generation: Generation of the spec it was found for.
        spec: The spec, None where it could not be read.
        before: Status as stored.
        sight: For the conditions.
        budget: State of the live knobs.
        memory: What must survive a restart.
        now_s: Moment of the pass.
        lowered: Knobs that get less autonomy here than the user asks for.
    """

    name: str
    generation: int
    spec: InferenceServiceSpec | None
    before: InferenceServiceStatus
    sight: Sight
    budget: BudgetStatus
    memory: Mapping[str, Any]
    now_s: float
    lowered: frozenset[Knob] = frozenset()


def status(found: Pass) -> InferenceServiceStatus:
    """The whole status after a pass."""
    tick, sight = found.sight.tick, found.sight
    fresh = InferenceServiceStatus(
        observed_generation=found.generation,
        replicas=len(sight.live),
        ready_replicas=sight.ready_count,
        desired_replicas=sight.wanted,
        selector=selector_text(found.name),
        budget=found.budget,
        calendar=_calendar(found),
        modes=_modes(found),
        slos=_slos(found),
        model=_model(tick) or found.before.model,
        last_decision=_last(tick) or found.before.last_decision,
        knobs=_knobs(found.before.knobs, tick),
        decisions=_changes(found.before.decisions, tick),
        conditions=_conditions(found),
        memory=dict(found.memory),
    )
    return fresh.model_copy(update={"summary": summarize(fresh)})


def _calendar(found: Pass) -> CalendarStatus | None:
    tick = found.sight.tick
    return found.before.calendar if tick is None else calendar.shown(tick.timetable)


def _modes(found: Pass) -> ModesStatus | None:
    """What is in force, where that is less than the user asked for."""
    if found.spec is None or not found.lowered:
        return None
    return ModesStatus(
        tuning=found.spec.tuning.mode,
        scaling=found.spec.scaling.effective_mode,
        lowered=tuple(name for knob, name in _MODES if knob in found.lowered),
    )


def with_moves(
    before: InferenceServiceStatus, moves: tuple[Decision, ...]
) -> InferenceServiceStatus:
    """A stored status that tells of these moves too."""
    if not moves:
        return before
    return before.model_copy(
        update={
            "last_decision": explanation.bare(moves[-1]),
            "decisions": _joined(before.decisions, moves),
        }
    )


def _conditions(found: Pass) -> tuple[Condition, ...]:
    now = datetime.fromtimestamp(found.now_s, UTC)
    conditions = found.before.conditions
    for kind, verdict in verdicts.verdicts(found.sight).items():
        if _is_known_better(found, kind, verdict):
            continue
        conditions = set_condition(conditions, kind, verdict, generation=found.generation, now=now)
    return set_progress(
        conditions,
        reconciling=verdicts.reconciling(found.sight),
        stalled=verdicts.stalled(found.sight),
        generation=found.generation,
        now=now,
    )


def _is_known_better(found: Pass, kind: ConditionType, verdict: Verdict) -> bool:
    """Whether a process that just took over has no data where the stored condition had."""
    known = find_condition(found.before.conditions, kind)
    if not found.sight.settling or known is None or kind not in _MEASURED:
        return False
    is_blind = verdict.status is ConditionStatus.UNKNOWN or verdict.reason == verdicts.ABSENT
    return is_blind and known.observed_generation == found.generation


def _slos(found: Pass) -> tuple[SloStatus, ...]:
    wanted = found.spec.slos if found.spec is not None else ()
    tick = found.sight.tick
    measured = {each.name: each for each in (tick.slo if tick is not None else ())}
    known = {each.name: each for each in found.before.slos}
    built = []
    for slo in wanted:
        base = SloStatus(
            name=slo.name, metric=slo.metric, target_ms=slo.target_ms, tier=slo.tier,
            percentile=slo.percentile,
        )  # fmt: skip
        new, old = measured.get(slo.name), known.get(slo.name)
        is_same = old is not None and old.target_ms == slo.target_ms
        if found.sight.settling and new is not None and new.attainment is None:
            new = None
        if new is not None:
            share = None if new.attainment is None else round(100 * new.attainment, 2)
            base = base.model_copy(update={
                "attainment_percent": share,
                "verdict": _verdict(new),
                **_open(new),
                "burn_hour": _burn(new.burn_hour),
                "burn_six_hours": _burn(new.burn_six_hours),
                "measured_ms": None if new.measured_ms is None else round(new.measured_ms, 2),
                "samples": new.samples,
                "measured_at": _measured_at(new, old if is_same else None),
            })  # fmt: skip
        elif old is not None and is_same:
            base = old
        built.append(base)
    return tuple(built)


def _verdict(new: SloMeasurement) -> SloVerdict | None:
    """The autopilot's own, which knows the samples; nothing where there are none."""
    if new.attainment is None:
        return None
    return {True: SloVerdict.HELD, False: SloVerdict.MISSED, None: SloVerdict.OPEN}[new.met]


def _burn(found: float | None) -> float | None:
    return None if found is None else round(found, 2)


def _open(new: SloMeasurement) -> dict[str, Any]:
    """What a histogram's edges leave open, nothing where the counts are exact."""
    if new.edges_ms is None or new.low is None or new.high is None:
        return {}
    return {
        "attainment_low_percent": round(100 * new.low, 2),
        "attainment_high_percent": round(100 * new.high, 2),
        "edges_ms": tuple(round(each, 3) for each in new.edges_ms if math.isfinite(each)),
    }


def _measured_at(new: SloMeasurement, old: SloStatus | None) -> str | None:
    """When the newest sample was measured, remembered after its measurement is gone."""
    if new.measured_at_s is not None:
        return _time(new.measured_at_s)
    return None if old is None else old.measured_at


def _model(tick: Tick | None) -> dict[str, Any] | None:
    if tick is None or tick.estimate is None:
        return None
    return {_camel(key): _rounded(value) for key, value in asdict(tick.estimate).items()}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _rounded(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _last(tick: Tick | None) -> ExplainedDecision | None:
    """The decision to show: the last one that moved something, else the last one."""
    if tick is None or not tick.decisions:
        return None
    moved = [each for each in tick.decisions if each.applied]
    return explanation.bare((moved or list(tick.decisions))[-1])


def _knobs(
    before: tuple[ExplainedDecision, ...], tick: Tick | None
) -> tuple[ExplainedDecision, ...]:
    """The newest decision about each knob; one about a live knob speaks for all of these."""
    found = {each.knob: each for each in before}
    for decision in tick.decisions if tick is not None else ():
        if decision.knob is not Knob.REPLICAS:
            found = {knob: each for knob, each in found.items() if knob == Knob.REPLICAS.value}
        found[decision.knob.value] = explanation.whole(decision)
    return tuple(found[knob.value] for knob in Knob if knob.value in found)


def _changes(before: tuple[DecisionStatus, ...], tick: Tick | None) -> tuple[DecisionStatus, ...]:
    if tick is None:
        return before
    changes = _joined(before, tuple(each for each in tick.decisions if each.applied))
    return explanation.with_observations(changes, tick.observed)


def _joined(
    before: tuple[DecisionStatus, ...], moves: tuple[Decision, ...]
) -> tuple[DecisionStatus, ...]:
    """Decisions with new moves; one that an announcement told of already is not told twice."""
    made = (explanation.change(each) for each in moves if each.action is not Action.HOLD)
    told = {_identity(each) for each in before}
    return (*before, *(each for each in made if _identity(each) not in told))[-MAX_DECISIONS:]


def _identity(decision: DecisionStatus) -> tuple[object, ...]:
    return decision.time, decision.knob, decision.action, decision.reason, decision.message


def _time(seconds: float) -> str:
    return timestamp(datetime.fromtimestamp(seconds, UTC))


def dump(status_: InferenceServiceStatus) -> dict[str, Any]:
    """The status as it is written: no nulls, which the schema would refuse."""
    return status_.model_dump(mode="json", by_alias=True, exclude_none=True)


def worth_writing(
    before: InferenceServiceStatus, after: InferenceServiceStatus, since_write_s: float
) -> bool:
    """Whether a status differs enough.

    A real change is written at once, and that a condition which was measured to hold holds no
    more. Whatever else is measured, holds and what the model learned are written at most once a
    minute, and beyond a dead-band of 1 point of attainment or 5 % of a latency.

    Args:
        before: As stored.
        after: As found now.
        since_write_s: Time since the moment that the last write was counted for.
    """
    if _is_changed(before, after) or (since_write_s >= 0.0 and _is_worse(before, after)):
        return True
    return since_write_s >= MEASURE_EVERY_S and (
        _facts(before) != _facts(after)
        or _measurements_moved(before, after)
        or _decision_keys(before) != _decision_keys(after)
        or _observed(before) != _observed(after)
        or _unmeasured(before) != _unmeasured(after)
        or _learned(before) != _learned(after)
    )


def counted_at_s(
    before: InferenceServiceStatus,
    after: InferenceServiceStatus,
    now_s: float,
    last_counted_at_s: float,
) -> float:
    """Moment that a write is counted for, from which the minute to the next one runs.

    Bad news that does not wait for its minute takes that of the next: conditions that come and
    go cost no more than a write a minute, whatever their pattern.

    Args:
        before: As stored.
        after: As written now.
        now_s: Moment of the write.
        last_counted_at_s: Moment that the write before was counted for.
    """
    is_early = now_s - last_counted_at_s < MEASURE_EVERY_S and not _is_changed(before, after)
    return last_counted_at_s + MEASURE_EVERY_S if is_early else max(now_s, last_counted_at_s)


def _is_changed(before: InferenceServiceStatus, after: InferenceServiceStatus) -> bool:
    """Whether more than measurements differs."""
    is_changed = _facts(before) != _facts(_as_known(before, after))
    return is_changed or _tells_of_another_knob(before, after)


def _tells_of_another_knob(before: InferenceServiceStatus, after: InferenceServiceStatus) -> bool:
    """Whether another live knob is the one to tell of: what is said of the old one is over."""
    known, now = ({each.knob for each in found.knobs} for found in (before, after))
    return bool(known) and known != now


def _as_known(
    before: InferenceServiceStatus, after: InferenceServiceStatus
) -> InferenceServiceStatus:
    """With the measured conditions as they were known: near a limit they come and go."""
    known = {each.type: each for each in before.conditions if each.type in _MEASURED}
    kept = tuple(known.get(each.type, each) for each in after.conditions)
    return after.model_copy(update={"conditions": kept})


def _is_worse(before: InferenceServiceStatus, after: InferenceServiceStatus) -> bool:
    """Whether a condition that was measured to hold is measured not to."""
    held = {each.type for each in before.conditions if each.status == ConditionStatus.TRUE}
    missed = {each.type for each in after.conditions if each.status == ConditionStatus.FALSE}
    return bool(held & missed & _GOOD)


def _facts(status_: InferenceServiceStatus) -> dict[str, Any]:
    facts = status_.model_dump(
        exclude={"slos", "model", "last_decision", "memory", "conditions", "summary"}
        | {"knobs", "decisions"}
    )
    facts["decisions"] = [_identity(each) for each in status_.decisions]
    facts["slos"] = [(each.name, each.target_ms, each.percentile) for each in status_.slos]
    facts["conditions"] = [
        (each.type, each.status, each.reason, each.observed_generation,
         "" if each.type in _MEASURED else each.message)
        for each in status_.conditions
    ]  # fmt: skip
    facts["kept"] = [(status_.memory or {}).get(key) for key in ("writers", pinned.KEY)]
    return facts


def _measurements_moved(before: InferenceServiceStatus, after: InferenceServiceStatus) -> bool:
    known = {each.name: each for each in before.slos}
    return any(_moved(known.get(each.name), each) for each in after.slos)


def _moved(old: SloStatus | None, new: SloStatus) -> bool:
    if old is None or old.verdict is not new.verdict:
        return True
    points, other = old.attainment_percent, new.attainment_percent
    if points is None or other is None:
        return points != other
    if abs(points - other) > DEAD_BAND_PERCENT_POINTS:
        return True
    if abs((old.burn_hour or 0.0) - (new.burn_hour or 0.0)) > DEAD_BAND_BURN:
        return True
    first, second = old.measured_ms or 0.0, new.measured_ms or 0.0
    return not math.isclose(first, second, rel_tol=DEAD_BAND_SHARE)


def _decision_keys(status_: InferenceServiceStatus) -> list[tuple[str, ...]]:
    last = () if status_.last_decision is None else (status_.last_decision,)
    return [(each.knob, each.action, each.reason) for each in (*last, *status_.knobs)]


def _observed(status_: InferenceServiceStatus) -> int:
    return sum(each.observed is not None for each in status_.decisions)


def _unmeasured(status_: InferenceServiceStatus) -> str:
    """Why pods are not measured: another cause is news, though the condition is as it was."""
    found = find_condition(status_.conditions, ConditionType.METRICS_FRESH)
    return "" if found is None else found.message


def _learned(status_: InferenceServiceStatus) -> Any:
    pilot = (status_.memory or {}).get("pilot", {})
    kept = ("proven_budget", "cold_starts_s", "manual_replicas", "squeezed_seqs")
    steps = [round(float((pilot.get(fit) or {}).get("steps", 0.0)), -2)
             for fit in ("decode_fit", "prefill_fit")]  # fmt: skip
    slow = [each.get("uid") for each in pilot.get("paces") or () if each.get("sick")]
    return [*steps, slow, *(pilot.get(key) for key in kept)]
