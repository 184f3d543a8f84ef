"""Scores kept on disk by content: of the cell, of the code and of the traces behind them."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path

from bench.conformance.cell import Cell, Score


class CellCache:
    """A folder with one file for each cell that was run.

    Args:
        folder: Made where it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, cell: Cell, evidence: str) -> Score | None:
        """What was found before; None where it was not, or the file cannot be read.

        Args:
            cell: What is asked.
            evidence: Digest of all it follows from.
        """
        try:
            stored = json.loads(self._path(cell, evidence).read_text())
            return Score.from_json(stored["score"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, cell: Cell, evidence: str, score: Score) -> None:
        """Keeps a score; whole or not at all, also when interrupted."""
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
