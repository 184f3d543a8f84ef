from __future__ import annotations

from dataclasses import replace

import pytest

from bench.conformance import bars
from bench.conformance.bars import Bar
from bench.conformance.cell import Cell, Score

CELL = Cell(load="step", policy=bars.OURS)
GOOD = Score(
    requests=1000,
    attainment=0.97,
    ttft_attainment=0.98,
    itl_attainment=0.99,
    replica_hours=4.0,
    worst_5min=0.9,
    recovery_s=200.0,
    replica_reversals=1,
    budget_reversals=3,
    replica_moves=4,
    budget_moves=6,
    replicas_peak=6,
    cut=0,
    wall_s=3.0,
)
ORACLE = replace(GOOD, attainment=0.98, replica_hours=3.5)
PEAK = replace(GOOD, attainment=1.0, replica_hours=10.0)
RIVAL = replace(GOOD, attainment=0.97, replica_hours=5.0)


def field(**changes: Score) -> dict[Cell, Score]:
    """Cells of one load: ours, oracle, peak and a rival, some of them replaced."""
    scores = {"ours": GOOD, "oracle": ORACLE, "peak": PEAK, "rival": RIVAL, **changes}
    return {
        CELL: scores["ours"],
        replace(CELL, policy=bars.ORACLE): scores["oracle"],
        replace(CELL, policy=bars.STATIC_PEAK): scores["peak"],
        replace(CELL, policy="keda-waiting", setting=2): scores["rival"],
    }


def test_nothing_is_missed_where_every_bar_is_met() -> None:
    findings = bars.judge(field(), changing=())
    assert bars.missed(findings) == []
    assert {f.bar for f in findings} == set(Bar) - {Bar.BUDGET_EARNS}
    assert bars.last_line(findings, "none", 4) == "conformance: ok cells=4 traces=none"


@pytest.mark.parametrize(
    ("changed", "bar"),
    [
        ({"attainment": 0.949}, Bar.ATTAINMENT),
        ({"replica_hours": 4.81}, Bar.SAVING),  # saves 5.19 of the oracle's 6.5: 0.798
        ({"worst_5min": 0.79}, Bar.WORST_5MIN),
        ({"recovery_s": 331.0}, Bar.RECOVERY),
        ({"replica_reversals": 2}, Bar.REPLICA_REVERSALS),
        ({"budget_reversals": 4}, Bar.BUDGET_REVERSALS),
        ({"cut": 1}, Bar.NOTHING_CUT),
    ],
)
def test_each_bar_is_missed_by_what_it_is_about(changed: dict[str, float], bar: Bar) -> None:
    findings = bars.judge(field(ours=replace(GOOD, **changed)), changing=())  # type: ignore[arg-type]
    assert bar in bars.missed(findings)


def test_attainment_is_asked_only_where_the_oracle_reaches_its_own() -> None:
    poor = replace(GOOD, attainment=0.5)
    found = bars.judge(field(ours=poor, oracle=replace(ORACLE, attainment=0.969)), changing=())
    assert Bar.ATTAINMENT not in {f.bar for f in found}


def test_a_step_is_judged_only_where_the_load_has_one() -> None:
    found = bars.judge(field(ours=replace(GOOD, recovery_s=None)), changing=())
    assert Bar.RECOVERY not in {f.bar for f in found}


def test_hours_are_compared_with_the_cheapest_setting_that_attains_as_much() -> None:
    scores = field()
    scores[replace(CELL, policy="keda-waiting", setting=3)] = replace(RIVAL, replica_hours=4.5)
    scores[replace(CELL, policy="keda-waiting", setting=4)] = replace(
        RIVAL, replica_hours=2.0, attainment=0.96
    )
    assert bars.hour_ratios(scores) == {CELL: pytest.approx(4.0 / 4.5)}


def test_the_oracle_and_our_own_parts_are_no_rivals() -> None:
    scores = field()
    scores[replace(CELL, policy="ours-feed-forward-only")] = replace(RIVAL, replica_hours=1.0)
    assert set(bars.cheapest_equal(scores, CELL)) == {bars.STATIC_PEAK, "keda-waiting"}


@pytest.mark.parametrize(
    ("attainment", "hours", "held"),
    [
        (0.92, 4.0, True),  # five points less
        (0.93, 4.0, False),
        (0.97, 4.4, True),  # ten per cent more hours
        (0.97, 4.3, False),
        (0.99, 4.0, False),
        (0.93, 3.0, False),
    ],
)
def test_the_budget_loop_earns_by_points_or_by_hours(
    attainment: float, hours: float, *, held: bool
) -> None:
    scores = field()
    for setting in range(2):
        scores[replace(CELL, policy=bars.WITHOUT_BUDGET, setting=setting)] = replace(
            GOOD, attainment=attainment - 0.2 * setting, replica_hours=hours
        )
    found = [f for f in bars.judge(scores, changing=["step"]) if f.bar is Bar.BUDGET_EARNS]
    assert [f.held for f in found] == [held]


def test_the_last_line_names_each_missed_bar_and_how_often() -> None:
    findings = bars.judge(field(ours=replace(GOOD, cut=2, worst_5min=0.1)), changing=())
    line = bars.last_line(findings, "7", 4)
    assert line == "conformance: short cells=4 traces=7 nothing-cut=1 worst-5min=1"
