"""Tables of an evaluation for the documentation, in Markdown. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace

from bench.conformance import summary
from bench.conformance.bars import (
    ATTAINMENT,
    MOST_HOURS,
    ORACLE,
    ORACLE_ATTAINMENT,
    OURS,
    Bar,
)
from bench.conformance.cell import Cell, Score, Scores
from bench.conformance.evaluation import Evaluation
from bench.conformance.report import bar_row, summary_row

_SUMMARY = ("load", "cold", "ours", "rival", "ratio", "oracle", "static")
_BARS = ("bar", "places", "missed", "where", "value", "limit")


def best_of_the_others(evaluation: Evaluation) -> str:
    """The autopilot beside the cheapest as good, the oracle and static replicas."""
    rows = (summary_row(line) for line in summary.lines(evaluation.scores))
    head = ("load", "C", "autopilot", "cheapest as good", "ratio", "oracle", "static peak")
    return _table(head, ([row[name] for name in _SUMMARY] for row in rows))


def beside_each(evaluation: Evaluation) -> str:
    """How often each of the others attains as much, and what it takes for that."""
    scores = evaluation.scores
    places = sum(cell.policy == OURS and cell.setting is None for cell in scores)
    head = ("rival", f"as good, of {places}", "ratio, median", "above 1.0 in")
    rows = (
        (
            each.rival,
            len(each.ratios),
            f"{statistics.median(each.ratios):.2f}",
            sum(ratio > MOST_HOURS for ratio in each.ratios),
        )
        for each in summary.beside_each(scores)
    )
    return _table(head, rows)


def bars(evaluation: Evaluation) -> str:
    """Every bar, how often it was missed, and where by most."""
    rows = (row for bar in Bar if (row := bar_row(bar, evaluation.findings)))
    head = ("bar", "places", "missed", "worst place", "reached", "asked")
    return _table(head, ([row[name] for name in _BARS] for row in rows))


def without_a_part(evaluation: Evaluation) -> str:
    """What each part of the law is worth: the whole, and the whole without it."""
    scores = evaluation.scores
    parts = {cell.policy for cell in scores if cell.policy.startswith(f"{OURS}-")}
    head = ("law", "places", "below 95 %", "points, median", "points, worst", "hours")
    return _table(head, (_part(scores, name) for name in (OURS, *sorted(parts))))


def _part(scores: Scores, policy: str) -> Sequence[str | int]:
    """One row; points of attainment and hours are beside the whole law in the same place."""
    pairs = [
        (cell, scores[cell], scores[whole])
        for cell in sorted(scores)
        if cell.policy == policy
        and cell.setting is None
        and (whole := replace(cell, policy=OURS)) in scores
    ]
    points = [100 * (score.attainment - whole.attainment) for _, score, whole in pairs]
    hours = sum(score.replica_hours for _, score, _ in pairs)
    of_whole = sum(whole.replica_hours for _, _, whole in pairs)
    return (
        policy,
        len(pairs),
        sum(_is_missed(scores, cell, score) for cell, score, _ in pairs),
        f"{statistics.median(points):+.1f}",
        f"{min(points):+.1f}",
        f"{hours / of_whole:.3f}",
    )


def _is_missed(scores: Scores, cell: Cell, score: Score) -> bool:
    """Whether it is below what is asked where the oracle shows that it can be had."""
    oracle = scores.get(replace(cell, policy=ORACLE))
    reachable = oracle is not None and oracle.attainment >= ORACLE_ATTAINMENT
    return reachable and score.attainment < ATTAINMENT


def _table(head: Sequence[str], rows: Iterable[Sequence[str | int]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)
