"""The report says in words why a run is not ok."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from e2e.demo.report import write
from e2e.demo.verdict import judge
from tests.e2e.demo.test_verdict import GOOD

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_each_reason_stands_in_it(tmp_path: Path) -> None:
    verdict = judge(replace(GOOD, lost=2, restarts=1))
    page = write([], verdict, tmp_path, NOW).read_text()
    assert "Why it is short" in page
    assert [f"<li>{reason}</li>" in page for reason in verdict.reasons] == [True, True]
    assert verdict.line in page


def test_a_good_run_needs_none(tmp_path: Path) -> None:
    assert "Why it is" not in write([], judge(GOOD), tmp_path, NOW).read_text()
