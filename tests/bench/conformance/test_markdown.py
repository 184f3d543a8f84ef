from __future__ import annotations

from dataclasses import replace

import pytest

from bench.conformance import markdown
from bench.conformance.cell import Cell, Score
from tests.bench.conformance.test_bars import CELL, GOOD, RIVAL, field
from tests.bench.conformance.test_report import evaluation

FIXED = replace(CELL, policy="ours-without-tuning")


def lines(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_the_autopilot_stands_beside_the_best_of_the_others() -> None:
    head, rule, row = lines(markdown.best_of_the_others(evaluation()))
    assert head[:3] == ["load", "C", "autopilot"]
    assert set(rule) == {"---"}
    assert row == [
        "step",
        "120",
        "97.0 %, 4.00 h",
        "5.00 h (keda-waiting)",
        "0.80",
        "98.0 %, 3.50 h",
        "100.0 %, 10.00 h",
    ]


def test_each_of_the_others_stands_beside_the_autopilot_where_it_is_as_good() -> None:
    scores = {}
    for seed, hours in ((2, 8.0), (3, 3.9), (4, 2.0)):
        scores[replace(CELL, seed=seed)] = GOOD
        rival = Cell(load="step", policy="hpa-cpu", setting=0, seed=seed)
        scores[rival] = replace(RIVAL, replica_hours=hours)
        scores[replace(rival, setting=1)] = replace(RIVAL, attainment=0.9)
    found = replace(evaluation(), scores=field() | scores)
    head, _, *rows = lines(markdown.beside_each(found))
    assert head == ["rival", "as good, of 4", "ratio, median", "above 1.0 in"]
    assert rows == [
        ["hpa-cpu", "3", "1.03", "2"],
        ["keda-waiting", "1", "0.80", "0"],
        ["static-peak", "1", "0.40", "0"],
    ]


def test_every_bar_that_was_looked_at_has_a_row() -> None:
    rows = lines(markdown.bars(evaluation()))[2:]
    assert [row[0] for row in rows][:2] == ["attainment", "saving"]
    assert {row[2] for row in rows} == {"0"}


@pytest.mark.parametrize(
    ("without", "row"),
    [
        (replace(GOOD, attainment=0.94), ["1", "1", "-3.0", "-3.0", "1.000"]),
        (replace(GOOD, replica_hours=5.0), ["1", "0", "+0.0", "+0.0", "1.250"]),
    ],
)
def test_a_part_is_worth_what_is_lost_without_it(without: Score, row: list[str]) -> None:
    found = replace(evaluation(), scores={**field(), FIXED: without})
    whole, part = lines(markdown.without_a_part(found))[2:]
    assert whole == ["ours", "1", "0", "+0.0", "+0.0", "1.000"]
    assert part == ["ours-without-tuning", *row]


def test_below_what_is_asked_counts_only_where_the_oracle_reaches_it() -> None:
    oracle = replace(GOOD, attainment=0.96)
    scores = {**field(ours=replace(GOOD, attainment=0.90), oracle=oracle)}
    (whole,) = lines(markdown.without_a_part(replace(evaluation(), scores=scores)))[2:]
    assert whole[2] == "0"
