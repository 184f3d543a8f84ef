"""One score for several seeds of the same cell: the middle one of each figure. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import groupby
from typing import Any

from bench.conformance.cell import Cell, Score


def by_contestant(
    scores: Mapping[Cell, Score], load: str, cold_start_s: int
) -> dict[tuple[str, int | None], dict[int, Score]]:
    """Scores of one load and cold start: of each contestant and setting, by seed.

    Args:
        scores: Of every cell.
        load: Name of the load.
        cold_start_s: The cold start.
    """
    cells = [cell for cell in scores if (cell.load, cell.cold_start_s) == (load, cold_start_s)]
    ordered = sorted(cells, key=lambda cell: (cell.policy, cell.setting or 0, cell.seed))
    return {
        contestant: {cell.seed: scores[cell] for cell in group}
        for contestant, group in groupby(ordered, key=lambda cell: (cell.policy, cell.setting))
    }


def middle(scores: Iterable[Score]) -> Score:
    """The median of each figure by itself; of an even number the lower one.

    Args:
        scores: One at least.
    """
    known = list(scores)
    return Score(**{each.name: _middle(known, each.name) for each in fields(Score)})


def _middle(scores: Sequence[Score], name: str) -> Any:
    found = [value for score in scores if (value := getattr(score, name)) is not None]
    return statistics.median_low(found) if found else None
