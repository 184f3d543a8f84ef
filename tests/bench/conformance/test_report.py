from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from bench.conformance import bars, report
from bench.conformance.bars import Bar
from bench.conformance.evaluation import Evaluation
from bench.conformance.pareto import points_of
from bench.conformance.report import bar_row, score_rows
from tests.bench.conformance.test_bars import CELL, GOOD, field


def evaluation() -> Evaluation:
    scores = field()
    findings = bars.judge(scores, changing=())
    return Evaluation(
        made_at=datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
        command="python -m bench.conformance",
        line=bars.last_line(findings, "none", len(scores)),
        scores=scores,
        findings=findings,
    )


def test_page_and_file_hold_every_cell(tmp_path: Path) -> None:
    page, data = report.write(evaluation(), tmp_path)
    text = page.read_text()
    assert "conformance: ok cells=4 traces=none" in text
    assert "data:image/png;base64," in text
    for policy in (bars.OURS, bars.ORACLE, bars.STATIC_PEAK, "keda-waiting #2"):
        assert f"<td>{policy}</td>" in text
    stored = json.loads(data.read_text())
    assert len(stored["cells"]) == 4
    assert stored["missed"] == []
    assert stored["cells"][0]["score"].keys() == GOOD.as_json().keys()


def test_a_table_has_the_best_first_and_ours_marked() -> None:
    rows = score_rows(field(), "step", 120)
    assert rows[0]["policy"] == "static-peak"
    assert [row["ours"] for row in rows].count(True) == 1


def test_a_bar_shows_its_worst_place() -> None:
    found = [
        bars.Finding(bar=Bar.ATTAINMENT, where=where, value=value, limit=0.95, held=value >= 0.95)
        for where, value in (("a", 0.99), ("b", 0.90), ("c", 0.94))
    ]
    row = bar_row(Bar.ATTAINMENT, found)
    assert row is not None
    assert (row["where"], row["missed"], row["places"]) == ("b", 2, 3)
    assert bar_row(Bar.SAVING, found) is None


def test_a_bar_that_holds_shows_where_it_is_nearest_to_its_limit() -> None:
    found = [
        bars.Finding(bar=Bar.RECOVERY, where=where, value=value, limit=330.0, held=True)
        for where, value in (("a", 100.0), ("b", 300.0))
    ]
    row = bar_row(Bar.RECOVERY, found)
    assert row is not None
    assert row["where"] == "b"


def test_a_panel_joins_settings_from_dear_to_cheap() -> None:
    points = points_of(field(), "step", 120)
    assert set(points) == {bars.OURS, bars.ORACLE, bars.STATIC_PEAK, "keda-waiting"}
    assert points_of(field(), "step", 30) == {}
    assert points[bars.OURS] == [field()[CELL]]


def test_seeds_of_one_contestant_share_a_row_that_tells_their_range() -> None:
    better = replace(GOOD, attainment=0.99)
    rows = score_rows(
        field() | {replace(CELL, seed=2): better, replace(CELL, seed=3): better}, "step", 120
    )
    (row,) = (row for row in rows if row["ours"])
    assert (row["seeds"], row["attainment"], row["range"]) == (3, "99.0 %", "97.0 to 99.0")
    assert all(row["range"] == "" for row in rows if row["seeds"] == 1)
    (point,) = points_of({CELL: GOOD, replace(CELL, seed=2): better}, "step", 120)[bars.OURS]
    assert point.attainment == GOOD.attainment
