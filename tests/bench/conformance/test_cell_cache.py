from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.conformance.cell import Cell
from bench.conformance.cell_cache import CellCache
from tests.bench.conformance.test_bars import CELL, GOOD


def test_a_score_is_found_again(tmp_path: Path) -> None:
    CellCache(tmp_path).put(CELL, "code", GOOD)
    assert CellCache(tmp_path).get(CELL, "code") == GOOD


@pytest.mark.parametrize(
    ("cell", "evidence"),
    [(CELL, "other code"), (replace(CELL, seed=2), "code"), (replace(CELL, setting=0), "code")],
)
def test_other_cells_and_other_code_are_run_anew(tmp_path: Path, cell: Cell, evidence: str) -> None:
    CellCache(tmp_path).put(CELL, "code", GOOD)
    assert CellCache(tmp_path).get(cell, evidence) is None


def test_a_damaged_file_counts_as_never_run(tmp_path: Path) -> None:
    cache = CellCache(tmp_path)
    cache.put(CELL, "code", GOOD)
    [path] = tmp_path.rglob("*.json")
    path.write_text('{"score": {"requests": 1}}')
    assert cache.get(CELL, "code") is None
    path.write_text("{")
    assert cache.get(CELL, "code") is None
