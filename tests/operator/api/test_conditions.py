"""Conditions as kstatus reads them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.api.choice import ConditionStatus
from paceline_operator.api.conditions import (
    MAX_MESSAGE_LENGTH,
    ConditionType,
    Verdict,
    find_condition,
    initial_conditions,
    set_condition,
    set_progress,
    timestamp,
)
from paceline_operator.api.status import Condition

T0 = datetime(2026, 1, 1, tzinfo=UTC)
T1 = T0 + timedelta(minutes=1)
TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE

verdicts = st.builds(
    Verdict,
    st.sampled_from(ConditionStatus),
    st.sampled_from(["One", "Two"]),
    st.text(max_size=3000),
)


def started() -> tuple[Condition, ...]:
    return initial_conditions((), generation=1, now=T0)


def status_of(conditions: tuple[Condition, ...], kind: ConditionType) -> str:
    found = find_condition(conditions, kind)
    assert found is not None
    return found.status


def test_all_are_there_from_the_first_pass() -> None:
    assert [c.type for c in started()] == [kind.value for kind in ConditionType]
    assert status_of(started(), ConditionType.READY) == "False"
    assert status_of(started(), ConditionType.RECONCILING) == "True"
    assert status_of(started(), ConditionType.STALLED) == "False"


def test_the_first_pass_keeps_what_was_set() -> None:
    ready = Verdict(TRUE, "Serving")
    conditions = set_condition((), ConditionType.READY, ready, generation=4, now=T0)
    again = initial_conditions(conditions, generation=5, now=T1)
    assert find_condition(again, ConditionType.READY) == conditions[0]
    assert len(again) == len(ConditionType)


@given(st.lists(st.tuples(st.sampled_from(ConditionType), verdicts), max_size=20))
def test_each_type_once_in_order_and_short_enough(
    changes: list[tuple[ConditionType, Verdict]],
) -> None:
    conditions = started()
    for kind, verdict in changes:
        conditions = set_condition(conditions, kind, verdict, generation=2, now=T1)
    assert [c.type for c in conditions] == [kind.value for kind in ConditionType]
    assert all(len(c.message) <= MAX_MESSAGE_LENGTH for c in conditions)


@given(verdicts, verdicts)
def test_transition_time_moves_only_with_the_status(first: Verdict, second: Verdict) -> None:
    kind = ConditionType.SLO_MET
    before = set_condition((), kind, first, generation=1, now=T0)
    (after,) = set_condition(before, kind, second, generation=2, now=T1)
    wanted = T0 if first.status == second.status else T1
    assert after.last_transition_time == timestamp(wanted)
    assert (after.reason, after.observed_generation) == (second.reason, 2)


@given(verdicts)
def test_setting_twice_changes_nothing(verdict: Verdict) -> None:
    kind = ConditionType.CONFLICT
    once = set_condition(started(), kind, verdict, generation=1, now=T1)
    later = T1 + timedelta(hours=1)
    assert set_condition(once, kind, verdict, generation=1, now=later) == once


def test_a_newer_operators_condition_stays() -> None:
    unknown = Condition(type="Shiny", status="True", reason="New", last_transition_time="x")
    conditions = initial_conditions((unknown,), generation=1, now=T0)
    assert conditions[-1] == unknown


@pytest.mark.parametrize(
    ("reconciling", "stalled", "wanted"),
    [
        (None, None, ("False", "False")),
        (Verdict(TRUE, "Rolling"), None, ("True", "False")),
        (None, Verdict(TRUE, "BadModel", "why"), ("False", "True")),
        (Verdict(TRUE, "Rolling"), Verdict(TRUE, "BadModel", "why"), ("False", "True")),
    ],
)
def test_never_reconciling_and_stalled_at_once(
    reconciling: Verdict | None, stalled: Verdict | None, wanted: tuple[str, str]
) -> None:
    conditions = set_progress(
        started(), reconciling=reconciling, stalled=stalled, generation=1, now=T1
    )
    found = tuple(
        status_of(conditions, kind) for kind in (ConditionType.RECONCILING, ConditionType.STALLED)
    )
    assert found == wanted


def test_timestamp_is_utc_in_whole_seconds() -> None:
    east = timezone(timedelta(hours=2))
    assert timestamp(datetime(2026, 1, 1, 2, 0, 0, 999999, east)) == "2026-01-01T00:00:00Z"
