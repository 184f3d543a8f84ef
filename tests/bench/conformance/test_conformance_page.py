"""The page of results has the figures of the result that it names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.conformance import result_file
from bench.conformance.result_file import ResultError
from tests.bench.conformance.test_report import evaluation
from tests.support.tree import ROOT
from tests.verify.conformance_page import END, PAGE, RESULTS, stale, with_tables

BEGIN = "<!-- tables of bench/results/one.json: written by `somebody` -->\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A page with an old table, and two results."""
    (tmp_path / RESULTS).mkdir(parents=True)
    (tmp_path / RESULTS / "one.json").write_text(result_file.dump(evaluation()))
    later = replace(evaluation(), line="conformance: short")
    (tmp_path / RESULTS / "two.json").write_text(result_file.dump(later))
    (tmp_path / PAGE).parent.mkdir()
    (tmp_path / PAGE).write_text(f"before\n{BEGIN}| old |\n{END}after\n")
    return tmp_path


def test_the_page_is_up_to_date() -> None:
    assert stale(ROOT) == []


@pytest.mark.parametrize(
    ("name", "line"), [("one", "conformance: ok cells=4"), ("two", "conformance: short")]
)
def test_tables_are_made_anew_and_the_rest_is_kept(tree: Path, name: str, line: str) -> None:
    assert any("old" in each for each in stale(tree))
    text = with_tables((tree / PAGE).read_text(), tree / RESULTS / f"{name}.json")
    (tree / PAGE).write_text(text)
    assert stale(tree) == []
    assert (text.startswith("before\n"), text.endswith("after\n")) == (True, True)
    assert line in text
    assert f"{RESULTS}/{name}.json" in text


def test_what_cannot_be_looked_at_is_told(tree: Path, tmp_path: Path) -> None:
    (tree / RESULTS / "one.json").write_text("{")
    (problem,) = stale(tree)
    assert problem.startswith("one.json is no result of this version")
    (tree / PAGE).write_text("no marks\n")
    assert "no tables" in stale(tree)[0]
    with pytest.raises(ResultError, match="no place for tables"):
        with_tables("no marks\n", tree / RESULTS / "two.json")
    (tree / PAGE).unlink()
    assert stale(tree) == [f"{PAGE} is missing"]
