"""How the text of a flag becomes its value.

A kind raises `ArgumentTypeError` (or `ValueError`) for a text that is not one; argparse puts
the flag's name before it.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from typing import Final

from paceline_engine.config import Device
from paceline_engine.server.presets import TuneFor
from paceline_engine.server.queue_rule import QueueRule

LOG_LEVELS: Final = ("debug", "info", "warning", "error")
MAX_SECONDS: Final = 86_400
MAX_BLOCK_SIZE: Final = 1024
BLOCK_MULTIPLE: Final = 8  # lanes of the CPU kernels
_SIZE: Final = re.compile(r"(\d+)([KMGT]i?)?B?")
_TENANT: Final = re.compile(r"[\x21-\x7e]{1,128}")
_UNITS: Final[dict[str | None, int]] = {
    None: 1,
    **{letter: 1000**power for power, letter in enumerate("KMGT", start=1)},
    **{f"{letter}i": 1024**power for power, letter in enumerate("KMGT", start=1)},
}


def count(minimum: int, maximum: int = 2**31 - 1) -> Callable[[str], int]:
    """Whole numbers within bounds."""

    def number(text: str) -> int:
        value = int(text)
        if not minimum <= value <= maximum:
            raise argparse.ArgumentTypeError(f"{value} is not within {minimum} to {maximum}")
        return value

    return number  # argparse takes the name for its message


def ratio(minimum: float, maximum: float) -> Callable[[str], float]:
    """Finite numbers within bounds."""

    def number(text: str) -> float:
        value = float(text)
        if not minimum <= value <= maximum:
            raise argparse.ArgumentTypeError(f"{text} is not within {minimum:g} to {maximum:g}")
        return value

    return number


def block_size(text: str) -> int:
    """Tokens in a KV block: 8, 16, 24, ... 1024.

    Raises:
        argparse.ArgumentTypeError: Another number; names the nearest that would do.
    """
    value = int(text)
    if value % BLOCK_MULTIPLE or not BLOCK_MULTIPLE <= value <= MAX_BLOCK_SIZE:
        near = round(value / BLOCK_MULTIPLE) * BLOCK_MULTIPLE
        near = min(max(near, BLOCK_MULTIPLE), MAX_BLOCK_SIZE)
        raise argparse.ArgumentTypeError(
            f"{value} is no multiple of {BLOCK_MULTIPLE} within {BLOCK_MULTIPLE} to "
            f"{MAX_BLOCK_SIZE}; 8, 16 and 32 are usual, {near} is near"
        )
    return value


def seconds(text: str) -> float:
    """Seconds of a flag, 0 to a day.

    Raises:
        argparse.ArgumentTypeError: Outside of that.
    """
    value = float(text)
    if not 0 <= value <= MAX_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} is not within 0 to {MAX_SECONDS} seconds")
    return value


def seconds_or(word: str, *others: str) -> Callable[[str], float | None]:
    """Seconds above 0, or the word that stands for no limit.

    Args:
        word: Stands for None.
        others: Words that the flag takes besides, for the message.
    """

    def seconds_or_word(text: str) -> float | None:
        if text.lower() == word:
            return None
        try:
            value = seconds(text)
        except ValueError:
            value = 0.0
        if not value:
            words = " nor ".join((word, *others))
            raise argparse.ArgumentTypeError(f"{text!r} is neither seconds above 0 nor {words}")
        return value

    return seconds_or_word


def queue_seconds(text: str) -> float | QueueRule | None:
    """Seconds above 0, `off` for None, or a rule by its name.

    Raises:
        argparse.ArgumentTypeError: None of them.
    """
    if text.lower() in set(QueueRule):
        return QueueRule(text.lower())
    return seconds_or("off", *QueueRule)(text)


def switch(text: str) -> bool:
    """`on` or `off`.

    Raises:
        argparse.ArgumentTypeError: Neither.
    """
    try:
        return {"on": True, "off": False}[text.lower()]
    except KeyError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither on nor off") from None


def byte_size(text: str) -> int:
    """Bytes of `1073741824`, `512Mi`, `2G`.

    Raises:
        argparse.ArgumentTypeError: Not of that form, or zero.
    """
    match = _SIZE.fullmatch(text)
    size = int(match[1]) * _UNITS[match[2]] if match else 0
    if size < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write bytes, or like 512Mi")
    return size


def weights(text: str) -> tuple[tuple[str, float], ...]:
    """Tenants and their weights of `name=2,other=0.5`; a name may hold `=`, no comma.

    Raises:
        argparse.ArgumentTypeError: Not of that form, a name twice or none that a header can
            carry, or a weight that is not within 0.001 to 1000.
    """
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.strip().rpartition("=")
        value = _weight(number)
        if not _TENANT.fullmatch(name) or value is None:
            raise argparse.ArgumentTypeError(
                f"{part!r} is not like name=2, with a weight within 0.001 to 1000"
            )
        if name in found:
            raise argparse.ArgumentTypeError(f"{name!r} is given twice")
        found[name] = value
    return tuple(found.items())


def _weight(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    return value if 0.001 <= value <= 1000 else None


def device(text: str) -> Device:
    """A device by its name.

    Raises:
        argparse.ArgumentTypeError: There is none of it.
    """
    return Device(one_of(*Device)(text))


def tune_for(text: str) -> TuneFor:
    """A preset by its name.

    Raises:
        argparse.ArgumentTypeError: There is none of it.
    """
    return TuneFor(one_of(*TuneFor)(text))


def one_of(*known: str) -> Callable[[str], str]:
    """A word of a fixed set, whatever its case."""

    def word(text: str) -> str:
        if text.lower() not in known:
            raise argparse.ArgumentTypeError(
                f"{text!r} is unknown; choose one of {', '.join(known)}"
            )
        return text.lower()

    return word
