"""Scores of earlier sittings, kept beside the results: the whole evaluation takes several.

A table of commas, one cell a line, sorted, so that a sitting adds lines and a version of the file
shows what it added. A line counts only for the code and traces whose digest it carries.
"""

from __future__ import annotations

import csv
from dataclasses import fields
from pathlib import Path

from bench.conformance.cell import Cell, Score

_DIGEST_LENGTH = 16
_COLUMNS = tuple(field.name for field in fields(Score))
_MAY_LACK = "recovery_s"
_HEAD = ("cell", "evidence", *_COLUMNS)


class LedgerError(ValueError):
    """The file cannot be used; the text says where."""


class CellLedger:
    """What is known of cells; written only when told to.

    Args:
        path: The file; none is an empty one.

    Raises:
        LedgerError: It is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = _read(path) if path.exists() else {}

    def get(self, cell: Cell, evidence: str) -> Score | None:
        """What was found before with the same code.

        Args:
            cell: What is asked.
            evidence: Digest of all it follows from.
        """
        digest, score = self._known.get(cell.name, ("", None))
        return score if digest == evidence[:_DIGEST_LENGTH] else None

    def put(self, cell: Cell, evidence: str, score: Score) -> None:
        """Notes a score in the place of one of other code."""
        self._known[cell.name] = (evidence[:_DIGEST_LENGTH], score)

    def save(self) -> None:
        """Writes the file; whole or not at all."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        beside = self._path.with_suffix(".part")
        with beside.open("w", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(_HEAD)
            rows.writerows(
                (name, digest, *(_text(getattr(score, column)) for column in _COLUMNS))
                for name, (digest, score) in sorted(self._known.items())
            )
        beside.replace(self._path)


def _text(value: float | None) -> str:
    if value is None:
        return ""
    return repr(value)


def _read(path: Path) -> dict[str, tuple[str, Score]]:
    found: dict[str, tuple[str, Score]] = {}
    with path.open(newline="") as file:
        for number, row in enumerate(csv.DictReader(file), 2):
            try:
                figures = {name: _value(name, row[name]) for name in _COLUMNS}
                found[row["cell"]] = (row["evidence"], Score.from_json(figures))
            except (KeyError, TypeError, ValueError) as error:
                raise LedgerError(f"{path}, line {number}: {error!r}; remove the line") from error
    return found


def _value(name: str, text: str | None) -> float | None:
    if not text and name == _MAY_LACK:
        return None
    if text is None:
        raise KeyError(name)
    return int(text) if name in _COUNTS else float(text)


_COUNTS = {field.name for field in fields(Score) if field.type == "int"}
