"""What CONTRIBUTING says of the test cluster is what its code reads."""

from __future__ import annotations

import re

from tests.support.tree import ROOT, tracked

TEXT = (ROOT / "CONTRIBUTING.md").read_text()
VARIABLE = re.compile(r"\bPACELINE_[A-Z_]+\b")


def read_by_code() -> set[str]:
    sources = [path for path in tracked(".py") if path.is_relative_to(ROOT / "e2e")]
    return {name for path in sources for name in VARIABLE.findall(path.read_text())}


def test_every_variable_of_the_test_cluster_is_documented() -> None:
    assert read_by_code() >= {"PACELINE_STATE", "PACELINE_KUBE_CONTEXT", "PACELINE_VALUES"}
    assert read_by_code() - set(VARIABLE.findall(TEXT)) == set()


def test_no_variable_is_documented_that_nothing_reads() -> None:
    known = read_by_code() | set(VARIABLE.findall((ROOT / "Makefile").read_text()))
    assert set(VARIABLE.findall(TEXT)) - known == set()


def test_the_mark_is_the_one_that_is_set() -> None:
    source = (ROOT / "e2e/mark.py").read_text()
    (label,) = re.findall(r"`(paceline\.dev/[\w-]+=\w+)`", TEXT)
    key, _, value = label.partition("=")
    assert f'"{key}"' in source
    assert f'"{value}"' in source
