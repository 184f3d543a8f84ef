"""A comparison as people read it: a table on a terminal, or Markdown for a pull request."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from paceline_operator.cli.duration import written
from paceline_operator.cli.plain_text import one_line
from paceline_operator.cli.what_if.comparison_rows import Row, rows
from paceline_operator.cli.wording import counted
from paceline_operator.simulator.what_if.comparison import Comparison, verdict

_STYLES = {True: "green", False: "red", None: ""}
_HEADS = {"old": "OLD", "new": "NEW"}


def render(comparison: Comparison) -> RenderableType:
    """For a terminal."""
    parts: list[RenderableType] = [
        Text(title(comparison), style="bold"),
        _table(comparison),
        Text(verdict(comparison), style="bold"),
        Text(""),
        *(Text(f"- {note}") for note in notes(comparison)),
    ]
    return Group(*parts)


def markdown(comparison: Comparison) -> str:
    """For a comment on a pull request."""
    heads = [variant.label for variant in comparison.variants]
    is_pair = len(heads) > 1
    columns = ["", *heads, *(["change"] if is_pair else [])]
    lines = [
        f"### What if: `{comparison.name}`",
        "",
        f"**{_escaped(verdict(comparison))}**",
        "",
        _line(columns),
        _line(["---", *["---:" for _ in columns[1:]]]),
        *(_line(_cells(row, is_pair=is_pair)) for row in rows(comparison)),
        "",
        "<details><summary>How it was computed</summary>",
        "",
        *(f"- {_escaped(note)}" for note in (title(comparison) + ".", *notes(comparison))),
        "",
        "</details>",
    ]
    return "\n".join(lines) + "\n"


def title(comparison: Comparison) -> str:
    """What was played, in one line."""
    load = comparison.load
    requests = f"{load.requests:,.0f}"
    noun = "request" if requests == "1" else "requests"
    return one_line(
        f"{comparison.name}: {load.source}, {written(load.span_s)}, {requests} {noun} "
        f"(mean prompt {load.prompt_mean:,.0f} tokens, answer {load.output_mean:,.0f})"
    )


def notes(comparison: Comparison) -> tuple[str, ...]:
    """How it was computed and what was assumed, one sentence or two each."""
    found = (
        _method(comparison),
        *comparison.load.notes,
        *_engines(comparison),
        *comparison.notes,
    )
    return tuple(one_line(each) for each in found)


def _method(comparison: Comparison) -> str:
    seeds = len(comparison.new.runs)
    specs = " and ".join(f"{each.label} {each.source}" for each in comparison.variants)
    over = f"means over {counted(seeds, 'seed')} (least to most where they differ)"
    return (
        f"Each spec ({specs}) was played on a simulated fleet that the operator's own control law "
        f"steers; {over}. The load's first {written(comparison.lead_s)} were played once more in "
        "front and not scored; starts vary by 10 %; nothing fails."
    )


def _engines(comparison: Comparison) -> tuple[str, ...]:
    """Once where they are the same for both."""
    variants = comparison.variants
    if len({variant.notes for variant in variants}) == 1:
        return variants[-1].notes
    return tuple(
        note if all(note in each.notes for each in variants) else f"{variant.label}: {note}"
        for variant in variants
        for note in variant.notes
        if variant is variants[0] or note not in variants[0].notes
    )


def _table(comparison: Comparison) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for variant in comparison.variants:
        table.add_column(_HEADS[variant.label], justify="right")
    is_pair = len(comparison.variants) > 1
    if is_pair:
        table.add_column("CHANGE", justify="right")
    for row in rows(comparison):
        held = row.held or (None,) * len(row.values)
        values = [Text(v, style=_STYLES[h]) for v, h in zip(row.values, held, strict=True)]
        table.add_row(row.label, *values, *([row.change] if is_pair else []))
    return table


def _cells(row: Row, *, is_pair: bool) -> list[str]:
    cells = [row.label, *row.values, *([row.change] if is_pair else [])]
    return [_escaped(cell) for cell in cells]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    for character in "\\`*_[]<>|":
        text = text.replace(character, "\\" + character)
    return " ".join(text.split())
