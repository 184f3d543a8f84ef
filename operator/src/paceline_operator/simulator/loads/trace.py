"""Request traces: `arrival_s,prompt_tokens,output_tokens[,prefix_blocks_512][,tier]`, one a line.

Strict, since a trace that is read wrongly still gives figures: whatever does not fit ends the
reading with one line that says where, what and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from paceline_operator.autopilot.vocabulary.window import INTERACTIVE
from paceline_operator.simulator.request import PREFIX_BLOCK_TOKENS, Request

LATEST_FIRST_ARRIVAL_S = 86_400.0
_SHOWN_CHARACTERS = 40


class TraceError(ValueError):
    """A trace that cannot be used; the text is one line for its user."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column: its name, the form of its values, and that form in words."""

    name: str
    form: str
    meaning: str


_TOKENS = r"[1-9][0-9]{0,8}"
_COLUMNS = (
    _Column("arrival_s", r"[0-9]{1,12}(?:\.[0-9]{1,18})?(?:[eE]-[0-9]{1,2})?", "seconds from 0"),
    _Column("prompt_tokens", _TOKENS, "a whole number from 1"),
    _Column("output_tokens", _TOKENS, "a whole number from 1"),
)
_BLOCKS = _Column(
    "prefix_blocks_512",
    r"(?:[0-9]{1,20}(?: [0-9]{1,20})*)?",
    "whole numbers with one space between them, or nothing",
)
_TIER = _Column("tier", "interactive|batch", "'interactive' or 'batch'")
_HEADERS = {
    ",".join(column.name for column in columns): columns
    for columns in (
        _COLUMNS,
        (*_COLUMNS, _BLOCKS),
        (*_COLUMNS, _TIER),
        (*_COLUMNS, _BLOCKS, _TIER),
    )
}


def parse_trace(lines: Iterable[str], name: str) -> Iterator[Request]:
    """Requests in order of arrival, read as they are asked for.

    Args:
        lines: The trace, without line ends.
        name: Of the file, for messages.

    Raises:
        TraceError: A line does not fit, or there is no request; raised on the way.
    """
    numbered = iter(enumerate(lines, 1))
    columns = _columns(next(numbered, (1, ""))[1], name)
    row = re.compile(",".join(f"(?P<{column.name}>{column.form})" for column in columns))
    earliest_s, number = 0.0, 1
    for number, line in numbered:
        match = row.fullmatch(line)
        if match is None:
            raise complaint(name, number, *_misfit(line, columns))
        request = _request(**match.groupdict())
        wrong = _contradiction(request, earliest_s, number)
        if wrong:
            raise complaint(name, number, *wrong)
        earliest_s = request.arrival_s
        yield request
    if number == 1:
        raise complaint(name, 1, "no request follows the header", "give it one line for each")


def complaint(name: str, line: int, what: str, remedy: str) -> TraceError:
    """The error in the one form that all have."""
    return TraceError(f"{name}:{line}: {what}; {remedy}")


def _columns(header: str, name: str) -> Sequence[_Column]:
    if header not in _HEADERS:
        shortest = next(iter(_HEADERS))
        remedy = (
            f"it must read {shortest!r}, with ',{_BLOCKS.name}', ',{_TIER.name}' or both after it"
        )
        raise complaint(name, 1, f"the header is {_shown(header)}", remedy)
    return _HEADERS[header]


def _request(
    *,
    arrival_s: str,
    prompt_tokens: str,
    output_tokens: str,
    prefix_blocks_512: str = "",
    tier: str = INTERACTIVE,
) -> Request:
    ids = tuple(map(int, prefix_blocks_512.split())) if prefix_blocks_512 else ()
    return Request(float(arrival_s), int(prompt_tokens), int(output_tokens), ids, tier)


def _misfit(line: str, columns: Sequence[_Column]) -> tuple[str, str]:
    """What is wrong with a line that no row looks like, and its remedy."""
    values = line.split(",")
    if len(values) != len(columns):
        return (
            f"{len(values)} values in {_shown(line)}, the header has {len(columns)}",
            "complete the line or remove it",
        )
    column, value = next(
        (column, value)
        for column, value in zip(columns, values, strict=True)
        if not re.fullmatch(column.form, value)
    )
    return f"{column.name} is {_shown(value)}", f"it must be {column.meaning}"


def _contradiction(request: Request, earliest_s: float, number: int) -> tuple[str, str] | None:
    """What is wrong with a row of the right form, and its remedy."""
    if request.arrival_s < earliest_s:
        what = f"arrival_s {request.arrival_s:g} lies before the {earliest_s:g} of the line above"
        return what, "sort the file by arrival_s"
    if number == 2 and request.arrival_s > LATEST_FIRST_ARRIVAL_S:
        what = f"the first arrival_s is {request.arrival_s:.0f}, more than a day"
        return what, "subtract it from every line: times count from the beginning"
    blocks = -(-request.prompt_tokens // PREFIX_BLOCK_TOKENS)
    if len(request.prefix_blocks) > blocks:
        what = f"{len(request.prefix_blocks)} block ids for {request.prompt_tokens} prompt tokens"
        return what, f"give {blocks} at most, one for each {PREFIX_BLOCK_TOKENS} tokens"
    return None


def _shown(text: str) -> str:
    cut = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."
    return ascii(cut)
