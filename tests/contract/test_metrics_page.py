"""The page of metrics lists what an engine reports: no family is left out or stays behind."""

from __future__ import annotations

from pathlib import Path

from paceline_engine.server import metric_names as names
from tests.support.tree import ROOT
from tests.verify.metrics_page import BEGIN, END, PAGE, stale, table, with_table


def test_the_page_is_up_to_date() -> None:
    assert stale(ROOT) == []


def test_every_family_has_a_row() -> None:
    for family in names.FAMILIES:
        assert f"| `{family.name}` | {family.kind.value} |" in table()


def test_reasons_and_outcomes_are_explained() -> None:
    text = (ROOT / PAGE).read_text()
    for value in (*names.REJECTION_REASONS, *names.OUTCOMES, names.UNREAD, *names.KV_STATES):
        assert f"`{value}`" in text, value


def test_a_page_that_is_missing_or_old_is_told(tmp_path: Path) -> None:
    assert stale(tmp_path) == [f"{PAGE} is missing"]
    (tmp_path / "docs").mkdir()
    page = tmp_path / PAGE
    page.write_text("text\n")
    assert "no table" in stale(tmp_path)[0]
    page.write_text(f"before\n{BEGIN}| old |\n{END}after\n")
    assert any("old" in line for line in stale(tmp_path))
    page.write_text(with_table(page.read_text()))
    assert stale(tmp_path) == []
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("after\n")
