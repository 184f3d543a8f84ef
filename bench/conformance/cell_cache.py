"""Scores kept on disk by content: of the cell, of the code and of the traces behind them."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path

from bench.conformance.cell import Cell, Score
from bench.conformance.cell_ledger import CellLedger


class CellCache:
    """A folder with one file for each cell that was run.

    Args:
        folder: Made where it is missing.
        ledger: What earlier sittings found elsewhere, where that counts; what is found here is
            noted there too.
    """

    def __init__(self, folder: Path, ledger: CellLedger | None = None) -> None:
        self._folder = folder
        self._ledger = ledger

    def get(self, cell: Cell, evidence: str) -> Score | None:
        """What was found before; None where it was not, or the file cannot be read.

        Args:
            cell: What is asked.
            evidence: Digest of all it follows from.
        """
        found = self._in_folder(cell, evidence)
        if self._ledger is None:
            return found
        if found is None:
            return self._ledger.get(cell, evidence)
        self._ledger.put(cell, evidence, found)
        return found

    def _in_folder(self, cell: Cell, evidence: str) -> Score | None:
        try:
            stored = json.loads(self._path(cell, evidence).read_text())
            return Score.from_json(stored["score"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, cell: Cell, evidence: str, score: Score) -> None:
        """Keeps a score; whole or not at all, also when interrupted."""
        if self._ledger is not None:
            self._ledger.put(cell, evidence, score)
        path = self._path(cell, evidence)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"cell": asdict(cell), "score": score.as_json()}, indent=1)
        handle, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "w") as file:
            file.write(text)
        Path(name).replace(path)

    def _path(self, cell: Cell, evidence: str) -> Path:
        key = hashlib.sha256(f"{cell.name}\0{evidence}".encode()).hexdigest()
        return self._folder / key[:2] / f"{key}.json"
