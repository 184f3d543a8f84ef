"""Decisions as lines of JSON that give the same bytes when they are made again.

A line holds what `pilot.step` was given and what it answered. Consecutive lines of one object share
nearly all measurements, so a line names those of the line before by their place and holds
only new ones; likewise memory that is the answer of the line before. The first line of an
object in a file therefore holds everything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from math import isfinite
from typing import Any

from pydantic import TypeAdapter, ValidationError

from paceline_operator.autopilot import pilot
from paceline_operator.autopilot.vocabulary.decision import Tick
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.policy import Policy
from paceline_operator.autopilot.vocabulary.window import Window

VERSION = 1
PREVIOUS = "previous"
_EXACT = float(2**53)

_POLICY, _FLEET = TypeAdapter(Policy), TypeAdapter(FleetObservation)
_MEMORY, _WINDOW = TypeAdapter(Memory), TypeAdapter(Window)


class RecordError(Exception):
    """A line is no record; the text says what is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question to the control law, with its answer.

    Attributes:
        policy: What is wanted.
        fleet: What is seen.
        memory: What is remembered.
        now_s: The operator's clock.
        tick: The answer.
    """

    policy: Policy
    fleet: FleetObservation
    memory: Memory
    now_s: float
    tick: Tick


class Writer:
    """Lines of one file; it remembers the line before of each object."""

    def __init__(self) -> None:
        self._before: dict[str, Asked] = {}

    def line(self, key: str, asked: Asked) -> str:
        """The record of a decision, without an end of line.

        Args:
            key: The object it is about.
            asked: The question and its answer.
        """
        text = _text(_document(key, asked, self._before.get(key)))
        # Only now: the next line may not lean on one that could not be made.
        self._before[key] = asked
        return text

    def forget(self) -> None:
        """The next lines hold everything, as at the beginning of a file."""
        self._before.clear()


class Replay:
    """Makes the decisions of a file again."""

    def __init__(self) -> None:
        self._before: dict[str, Asked] = {}

    def again(self, line: str) -> tuple[str, str]:
        """Key of the object, and the line as it comes out when its decision is made again.

        Raises:
            RecordError: The line is no record of this version, lacks the line before it, or holds
                values that nothing can be decided on.
        """
        try:
            return self._again(line)
        except RecordError:
            raise
        except Exception as error:
            # Reading checks types; which values fit together only the law finds out, as it fails.
            raise RecordError(
                f"no decision can be made of its values ({type(error).__name__}: {error})"
            ) from error

    def _again(self, line: str) -> tuple[str, str]:
        document = _parsed(line)
        key = str(document.get("object", ""))
        before = self._before.get(key)
        policy, fleet, memory, now_s = _inputs(document, before)
        tick = pilot.step(policy, fleet, memory, now_s)
        asked = Asked(policy=policy, fleet=fleet, memory=memory, now_s=now_s, tick=tick)
        text = _text(_document(key, asked, before))
        self._before[key] = asked
        return key, text


def _document(key: str, asked: Asked, before: Asked | None) -> dict[str, Any]:
    is_kept = before is not None and asked.memory == before.tick.memory
    return {
        "version": VERSION,
        "object": key,
        "now_s": asked.now_s,
        "policy": _plain(asked.policy),
        "memory": PREVIOUS if is_kept else _plain(asked.memory),
        "fleet": _plain(replace(asked.fleet, slices=())),
        "slices": _slices(asked.fleet.slices, before),
        "tick": _plain(asked.tick),
    }


def _slices(slices: tuple[Window, ...], before: Asked | None) -> list[Any]:
    """Places in the line before, or whole slices."""
    known = before.fleet.slices if before is not None else ()
    places = {window.end_s: place for place, window in enumerate(known)}
    found: list[Any] = []
    for window in slices:
        place = places.get(window.end_s)
        is_known = place is not None and (known[place] is window or known[place] == window)
        found.append(place if is_known else _plain(window))
    return found


def _parsed(line: str) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except RecursionError as error:
        raise RecordError("it is nested too deep for a record") from error
    except ValueError as error:
        raise RecordError(f"it is no JSON ({error})") from error
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise RecordError(f"it is no record of version {VERSION}")
    return document


def _inputs(
    document: Mapping[str, Any], before: Asked | None
) -> tuple[Policy, FleetObservation, Memory, float]:
    try:
        fleet = _FLEET.validate_python(document["fleet"])
        slices = tuple(_slice(each, before) for each in document["slices"])
        return (
            _POLICY.validate_python(document["policy"]),
            replace(fleet, slices=slices),
            _memory(document["memory"], before),
            float(document["now_s"]),
        )
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RecordError(f"{where}: {first['msg']}") from error
    except KeyError as error:
        raise RecordError(f"{error.args[0]} is missing") from error
    except (IndexError, TypeError, ValueError) as error:
        raise RecordError("what it names of the line before is not there") from error


def _slice(each: Any, before: Asked | None) -> Window:
    if not isinstance(each, int):
        return _WINDOW.validate_python(each)
    if before is None or each < 0:
        raise IndexError
    return before.fleet.slices[each]


def _memory(each: Any, before: Asked | None) -> Memory:
    if each != PREVIOUS:
        return _MEMORY.validate_python(each)
    if before is None:
        raise IndexError
    return before.tick.memory


def _plain(value: Any) -> Any:
    """As JSON values: defaults left out, whole numbers without a point, infinity as a word.

    A count that is whole may be a float here and an integer after reading; both are the same text.
    """
    if is_dataclass(value):
        return {
            each.name: _plain(found)
            for each in fields(value)
            if not _is_default(each, found := getattr(value, each.name))
        }
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return _number(value)
    return value


def _is_default(each: Any, value: Any) -> bool:
    return bool(value == each.default and type(value) is type(each.default))


def _number(value: float) -> float | int | str:
    if not isfinite(value):
        return str(value)
    return int(value) if value.is_integer() and abs(value) < _EXACT else value


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"), allow_nan=False)
