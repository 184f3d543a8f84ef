"""All that one run of the evaluation found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bench.conformance.bars import Finding
from bench.conformance.cell import Scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """All that is told.

    Attributes:
        made_at: When it ended.
        command: What made it.
        line: The last line.
        scores: Of every cell.
        findings: Every bar in every place.
    """

    made_at: datetime
    command: str
    line: str
    scores: Scores
    findings: Sequence[Finding]
