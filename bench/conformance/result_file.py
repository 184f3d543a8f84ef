"""The file for scripts: every cell and every bar of an evaluation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.conformance.bars import Bar, Finding, missed
from bench.conformance.cell import Cell, Score
from bench.conformance.evaluation import Evaluation


class ResultError(ValueError):
    """A file is no result of this version; the text names it."""


def dump(evaluation: Evaluation) -> str:
    """The file's text: a line for each cell and finding, as there are thousands."""
    entries = (f'"{key}": {_rows(value)}' for key, value in _document(evaluation).items())
    return "{\n" + ",\n".join(entries) + "\n}\n"


def load(path: Path) -> Evaluation:
    """What such a file holds.

    Raises:
        ResultError: It is none.
    """
    try:
        document = json.loads(path.read_text())
        return Evaluation(
            made_at=datetime.fromisoformat(document["madeAt"]),
            command=document["command"],
            line=document["line"],
            scores=dict(map(_scored, document["cells"])),
            findings=[_finding(each) for each in document["findings"]],
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResultError(f"{path.name} is no result of this version: {error}") from error


def _document(evaluation: Evaluation) -> dict[str, Any]:
    return {
        "madeAt": evaluation.made_at.isoformat(),
        "command": evaluation.command,
        "line": evaluation.line,
        "missed": missed(evaluation.findings),
        "findings": [asdict(finding) for finding in evaluation.findings],
        "cells": [
            {**asdict(cell), "score": score.as_json()}
            for cell, score in sorted(evaluation.scores.items(), key=lambda item: item[0].name)
        ],
    }


def _rows(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return json.dumps(value)
    return "[\n" + ",\n".join(f" {json.dumps(each)}" for each in value) + "\n]"


def _scored(stored: Mapping[str, Any]) -> tuple[Cell, Score]:
    score = Score.from_json(stored["score"])
    return Cell(**{name: value for name, value in stored.items() if name != "score"}), score


def _finding(stored: Mapping[str, Any]) -> Finding:
    return Finding(**{**stored, "bar": Bar(stored["bar"])})
