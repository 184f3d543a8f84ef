"""What earlier sittings found, as a table beside the results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.conformance.cell import Cell, Score
from bench.conformance.cell_cache import CellCache
from bench.conformance.cell_ledger import CellLedger, LedgerError
from tests.bench.conformance.test_bars import CELL, GOOD

OTHER = replace(CELL, seed=2)
LATER = replace(GOOD, recovery_s=135.25, attainment=0.123456)


def kept(path: Path, *cells: Cell) -> CellLedger:
    ledger = CellLedger(path)
    for cell in cells:
        ledger.put(cell, "code", LATER)
    ledger.save()
    return CellLedger(path)


@pytest.mark.parametrize("score", [GOOD, LATER, replace(GOOD, recovery_s=None)])
def test_a_score_comes_back_as_it_was(tmp_path: Path, score: Score) -> None:
    path = tmp_path / "cells.csv"
    ledger = CellLedger(path)
    ledger.put(CELL, "code", score)
    ledger.save()
    assert CellLedger(path).get(CELL, "code") == score


def test_other_cells_and_other_code_are_run_anew(tmp_path: Path) -> None:
    ledger = kept(tmp_path / "cells.csv", CELL)
    assert ledger.get(CELL, "other code") is None
    assert ledger.get(OTHER, "code") is None


def test_newer_code_takes_the_place_of_older(tmp_path: Path) -> None:
    ledger = kept(tmp_path / "cells.csv", CELL)
    ledger.put(CELL, "newer", GOOD)
    ledger.save()
    lines = (tmp_path / "cells.csv").read_text().splitlines()
    assert len(lines) == 2
    assert CellLedger(tmp_path / "cells.csv").get(CELL, "newer") == GOOD


def test_the_order_of_lines_is_that_of_names(tmp_path: Path) -> None:
    kept(tmp_path / "a.csv", CELL, OTHER)
    kept(tmp_path / "b.csv", OTHER, CELL)
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cells.csv"
    kept(path, CELL)
    path.write_text(path.read_text().replace("0.123456", "much"))
    with pytest.raises(LedgerError, match=r"cells\.csv, line 2: .*remove the line"):
        CellLedger(path)


def test_the_cache_reads_and_fills_it(tmp_path: Path) -> None:
    ledger = kept(tmp_path / "cells.csv", CELL)
    cache = CellCache(tmp_path / "cache", ledger)
    assert cache.get(CELL, "code") == LATER
    cache.put(OTHER, "code", GOOD)
    assert ledger.get(OTHER, "code") == GOOD
    beside = CellLedger(tmp_path / "new.csv")
    assert CellCache(tmp_path / "cache", beside).get(OTHER, "code") == GOOD
    assert beside.get(OTHER, "code") == GOOD
