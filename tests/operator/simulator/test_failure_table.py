"""`docs/failure-modes.md` lists every test of a failure mode, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.tree import ROOT

ROW = re.compile(r"^\| .+ \| .+ \| .+ \| `(test_\w+)` \|$", re.MULTILINE)
TEST = re.compile(r"^def (test_\w+)\(", re.MULTILINE)


def test_the_table_and_the_tests_agree() -> None:
    modules = [
        p for p in Path(__file__).parent.glob("test_fail*.py") if p.name != Path(__file__).name
    ]
    tests = [name for module in modules for name in TEST.findall(module.read_text())]
    listed = ROW.findall((ROOT / "docs" / "failure-modes.md").read_text())
    assert sorted(listed) == sorted(tests)
    assert len(tests) > 20
