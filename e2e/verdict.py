"""How a run on the real cluster ends: ok, short or void, from figures alone. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    """How a run ends; ok, short and void are the words of its last line."""

    OK = 0
    SHORT = 1
    STOPPED = 2
    VOID = 3
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run says at its end.

    Attributes:
        code: Exit code.
        reasons: Why it is not ok, one line each.
        line: The last line.
    """

    code: ExitCode
    reasons: tuple[str, ...]
    line: str


def conclude(
    name: str, *, disturbances: Sequence[str], shortfalls: Sequence[str], figures: str
) -> Verdict:
    """Void before short: a disturbed run proves nothing, neither good nor bad.

    Args:
        name: Of the run, which begins its last line.
        disturbances: Why its figures do not count, one line each.
        shortfalls: What did not hold, one line each.
        figures: What the last line says beside that.
    """
    code = ExitCode.VOID if disturbances else ExitCode.SHORT if shortfalls else ExitCode.OK
    line = f"{name}: {code.name.lower()} {figures}"
    return Verdict(code, (*disturbances, *shortfalls), line)
