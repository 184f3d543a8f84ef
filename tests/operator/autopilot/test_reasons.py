"""`docs/reasons.md` lists every reason there is, and says what to do about it."""

from __future__ import annotations

import re

from paceline_operator.autopilot.vocabulary.decision import Reason
from paceline_operator.metrics.scraper import STALE_AFTER_INTERVALS, STALE_AFTER_S
from paceline_operator.reconcile.pace import LONGEST_S
from tests.support.tree import ROOT

ROW = re.compile(r"^\| `(\w+)` \| (.+) \| (.+) \|$", re.MULTILINE)


def test_every_reason_is_in_the_table_once() -> None:
    rows = ROW.findall((ROOT / "docs" / "reasons.md").read_text())
    assert sorted(name for name, _, _ in rows) == sorted(Reason)
    assert all(meaning.endswith(".") and todo.endswith(".") for _, meaning, todo in rows)


def test_no_row_asks_for_what_the_api_server_refuses() -> None:
    """A profile goes with the simulated device alone."""
    for line in (ROOT / "docs" / "reasons.md").read_text().splitlines():
        assert "device.profile" not in line or "simulated" in line


def test_how_old_stale_data_are_is_said_for_each_source() -> None:
    rows = {name: meaning for name, meaning, _ in ROW.findall(
        (ROOT / "docs" / "reasons.md").read_text()
    )}  # fmt: skip
    stale = rows["DataStale"]
    assert "three intervals" in stale
    assert f"{STALE_AFTER_S:.0f} s where the operator reads" in stale
    assert f"up to {STALE_AFTER_INTERVALS * LONGEST_S:.0f} s" in stale


def test_every_reason_is_given_somewhere() -> None:
    """One that nothing gives is a promise in the table."""
    code = "".join(
        path.read_text() for path in (ROOT / "operator" / "src" / "paceline_operator").rglob("*.py")
    )
    unused = [reason.name for reason in Reason if f"Reason.{reason.name}" not in code]
    assert unused == []
