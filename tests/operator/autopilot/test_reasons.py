"""`docs/reasons.md` lists every reason there is, and says what to do about it."""

from __future__ import annotations

import re

from paceline_operator.autopilot.decision import Reason
from tests.support.tree import ROOT

ROW = re.compile(r"^\| `(\w+)` \| (.+) \| (.+) \|$", re.MULTILINE)


def test_every_reason_is_in_the_table_once() -> None:
    rows = ROW.findall((ROOT / "docs" / "reasons.md").read_text())
    assert sorted(name for name, _, _ in rows) == sorted(Reason)
    assert all(meaning.endswith(".") and todo.endswith(".") for _, meaning, todo in rows)


def test_every_reason_is_given_somewhere() -> None:
    """One that nothing gives is a promise in the table."""
    code = "".join(
        path.read_text() for path in (ROOT / "operator" / "src" / "paceline_operator").rglob("*.py")
    )
    unused = [reason.name for reason in Reason if f"Reason.{reason.name}" not in code]
    assert unused == []
