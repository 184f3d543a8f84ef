"""From measured rounds of flag cases to a table, and the table into docs/engine.md. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

BEGIN: Final = "<!-- flags:begin -->"
END: Final = "<!-- flags:end -->"
LARGEST_OTHERS: Final = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One case over all rounds; the n-th values of both sides belong to one round.

    Attributes:
        name: Of the case.
        flag: It is about.
        before: Arguments of one side, as one text.
        after: Of the other.
        load: In words.
        device: `cpu` or `simulated`.
        figures: By name, the values of each side.
        others: Largest share of the machine that other processes used.
    """

    name: str
    flag: str
    before: str
    after: str
    load: str
    device: str
    figures: dict[str, tuple[list[float], list[float]]]
    others: float


def table(measured: Sequence[Measured]) -> str:
    """Markdown: medians over rounds, in brackets the smallest and the largest."""
    lines = [
        "| flag | from, to | load | effect: median (smallest to largest of the rounds) |",
        "|---|---|---|---|",
    ]
    for case in measured:
        effects = "<br>".join(
            f"{name}: {_spread(before)} → {_spread(after)}"
            for name, (before, after) in case.figures.items()
        )
        device = "real model" if case.device == "cpu" else "simulated"
        change = f"{_value(case, case.before)}, {_value(case, case.after)}"
        lines.append(f"| `{case.flag}` | {change} | {device}: {case.load} | {effects} |")
    return "\n".join(lines)


def inserted(page: str, content: str) -> str:
    """The page with `content` between its marks.

    Raises:
        ValueError: The marks are not there once each, in order.
    """
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end) or BEGIN in rest or END in tail:
        raise ValueError(f"the page does not have {BEGIN} and {END} once each, in this order")
    return f"{head}{BEGIN}\n{content}\n{END}{tail}"


def between(page: str) -> str:
    """What stands between the marks."""
    return page.partition(BEGIN)[2].partition(END)[0].strip()


def section(content: Mapping[str, Any], data_file: str) -> str:
    """What docs/engine.md says of one result.

    Args:
        content: Of the result's JSON file.
        data_file: Its path from the page.
    """
    measured = [Measured(**case) for case in content["cases"]]
    known = content["facts"]
    disturbed = [case.name for case in measured if case.others > LARGEST_OTHERS]
    void = f" Disturbed by other processes: {', '.join(disturbed)}." if disturbed else ""
    return (
        f"Measured {content['time'][:10]} on {known['usable cores']} cores of "
        f"{known['processor']}, {content['rounds']} rounds, both settings in turn "
        f"([data]({data_file})).{void}\n\n{table(measured)}"
    )


def _value(case: Measured, arguments: str) -> str:
    return f"`{arguments.removeprefix(case.flag + '=')}`" if arguments else "absent"


def _spread(values: Sequence[float]) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{_number(middle)} ({_number(low)} to {_number(high)})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
