"""Makes recorded decisions again and compares them byte for byte."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from paceline_operator.autopilot.record import RecordError, Replay
from paceline_operator.cli.errors import CliError


def replay(path: Path, noted: Callable[[str], None]) -> Iterator[str | None]:
    """For each record a sentence about how its decision differs, None where it does not.

    The last line may be cut short, by a process that ended while it wrote: it is left out.

    Args:
        path: A file of records.
        noted: Told of what was left out.

    Raises:
        CliError: The file cannot be read, a line of it is no record, or there is none.
    """
    made, number = Replay(), 0
    for number, line in _lines(path, noted):
        try:
            key, again = made.again(line)
        except RecordError as error:
            raise CliError(
                f"{path}:{number}: {error}; give a file that this version of the operator recorded"
            ) from error
        yield None if again == line else f"{path}:{number}: {key}: {_difference(line, again)}"
    if not number:
        raise CliError(f"{path}: no whole decision is in it, so none was made again; name another")


def _lines(path: Path, noted: Callable[[str], None]) -> Iterator[tuple[int, str]]:
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith("\n"):
                    noted(f"{path}:{number}: the line was cut short, so it was left out")
                    return
                yield number, line[:-1]
    except UnicodeDecodeError as error:
        raise CliError(f"{path}: it is no text ({error.reason}); give a recorded file") from error
    except OSError as error:
        raise CliError(f"{path}: {error.strerror or error}; name a file to read") from error


def _difference(recorded: str, made: str) -> str:
    """The first place where they differ, as a path into the record with both values."""
    found = _first(json.loads(recorded), json.loads(made), "")
    if found is None:
        return "the same values are written in another form"
    where, one, other = found
    return f"{where} was {_short(one)}, is {_short(other)} now"


def _first(one: Any, other: Any, where: str) -> tuple[str, Any, Any] | None:
    if isinstance(one, dict) and isinstance(other, dict):
        places = [(f"{where}.{name}".lstrip("."), one.get(name), other.get(name))
                  for name in dict.fromkeys((*one, *other))]  # fmt: skip
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        places = [(f"{where}[{n}]", a, b) for n, (a, b) in enumerate(zip(one, other, strict=True))]
    else:
        return None if one == other else (where, one, other)
    return next((found for at, a, b in places if (found := _first(a, b, at))), None)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
