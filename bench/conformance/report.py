"""The page for people and the file for scripts, from the scores of all cells."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader

from bench.conformance import pareto, result_file, summary
from bench.conformance.bars import OURS, Bar, Finding, missed
from bench.conformance.cell import Cell, Score
from bench.conformance.evaluation import Evaluation
from bench.conformance.seeds import by_contestant, middle
from bench.conformance.summary import Line

TEMPLATE = "report.html.j2"


def write(evaluation: Evaluation, folder: Path) -> tuple[Path, Path]:
    """Writes both; returns their paths, the page first."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"conformance-{evaluation.made_at:%Y%m%dT%H%M%SZ}"
    page, data = folder / f"{stem}.html", folder / f"{stem}.json"
    page.write_text(html(evaluation))
    data.write_text(result_file.dump(evaluation))
    return page, data


def html(evaluation: Evaluation) -> str:
    """The page, pictures inside."""
    groups = sorted({(cell.load, cell.cold_start_s) for cell in evaluation.scores})
    titles = {group: f"{group[0]}, cold start {group[1]} s" for group in groups}
    panels = {titles[group]: pareto.points_of(evaluation.scores, *group) for group in groups}
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True)
    return environment.get_template(TEMPLATE).render(
        made_at=f"{evaluation.made_at:%Y-%m-%d %H:%M} UTC",
        command=evaluation.command,
        line=evaluation.line,
        held=not missed(evaluation.findings),
        image=base64.b64encode(pareto.png(panels)).decode(),
        lines=[summary_row(line) for line in summary.lines(evaluation.scores)],
        bars=[row for bar in Bar if (row := bar_row(bar, evaluation.findings))],
        groups=[
            {"title": titles[group], "rows": score_rows(evaluation.scores, *group)}
            for group in groups
        ],
    )


def bar_row(bar: Bar, findings: Sequence[Finding]) -> dict[str, str | int] | None:
    """One bar over all places, with the place where it is farthest from being held."""
    found = [finding for finding in findings if finding.bar is bar]
    if not found:
        return None
    worst = min(found, key=lambda finding: (finding.held, -_distance(finding)))
    return {
        "bar": bar.value,
        "places": len(found),
        "missed": sum(not finding.held for finding in found),
        "where": worst.where,
        "value": f"{worst.value:.3g}",
        "limit": f"{worst.limit:.3g}",
    }


def _distance(finding: Finding) -> float:
    return abs(finding.value - finding.limit) * (-1.0 if finding.held else 1.0)


def score_rows(
    scores: Mapping[Cell, Score], load: str, cold_start_s: int
) -> list[dict[str, str | int | bool]]:
    """The table of one load, best attainment first."""
    found = by_contestant(scores, load, cold_start_s)
    rows = [(middle(by_seed.values()), contestant) for contestant, by_seed in found.items()]
    rows.sort(key=lambda row: (-round(row[0].attainment, 3), row[0].replica_hours))
    return [_row(*contestant, score, found[contestant]) for score, contestant in rows]


def _row(
    policy: str, setting: int | None, score: Score, by_seed: Mapping[int, Score]
) -> dict[str, str | int | bool]:
    place = "" if setting is None else f" #{setting}"
    attained = [each.attainment for each in by_seed.values()]
    least, most = f"{100 * min(attained):.1f}", f"{100 * max(attained):.1f}"
    return {
        "policy": f"{policy}{place}",
        "ours": policy == OURS,
        "seeds": len(by_seed),
        "attainment": f"{100 * score.attainment:.1f} %",
        "range": "" if least == most else f"{least} to {most}",
        "ttft": f"{100 * score.ttft_attainment:.1f} %",
        "itl": f"{100 * score.itl_attainment:.1f} %",
        "hours": f"{score.replica_hours:.2f}",
        "worst": f"{100 * score.worst_5min:.0f} %",
        "recovery": "" if score.recovery_s is None else f"{score.recovery_s:.0f} s",
        "moves": f"{score.replica_moves} / {score.budget_moves}",
        "reversals": f"{score.replica_reversals} / {score.budget_reversals}",
        "peak": score.replicas_peak,
        "cut": score.cut,
    }


def summary_row(line: Line) -> dict[str, str | int]:
    """One load and cold start: the autopilot beside the best of the others."""
    return {
        "load": line.load,
        "cold": line.cold_start_s,
        "seeds": line.seeds,
        "ours": _reached(line.ours),
        "rival": "" if line.rival is None else f"{line.rival_hours:.2f} h ({line.rival})",
        "ratio": "" if line.ratio is None else f"{line.ratio:.2f}",
        "oracle": _reached(line.oracle),
        "static": _reached(line.static_peak),
    }


def _reached(score: Score | None) -> str:
    if score is None:
        return ""
    return f"{100 * score.attainment:.1f} %, {score.replica_hours:.2f} h"
