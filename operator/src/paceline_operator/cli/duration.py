"""Stretches of time as people write them."""

from __future__ import annotations

import re

from paceline_operator.cli.errors import CliError

_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_FORM = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def seconds(text: str, what: str) -> float:
    """`90s`, `30m`, `24h`, `7d` or `1h30m` in seconds.

    Args:
        text: As it was written.
        what: What it is the value of, for the message.

    Raises:
        CliError: It is none, or nothing.
    """
    parts = _FORM.findall(text)
    found = sum(float(number) * _UNITS_S[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or not 0 < found < float("inf"):
        raise CliError(f"{what}: {text!r} is no duration; write one such as 30m, 24h or 7d")
    return found


def written(length_s: float) -> str:
    """`45 s`, `12 min`, `24.0 h`, `7.0 d`."""
    if length_s < 120:
        return f"{length_s:.0f} s"
    if length_s < 7200:
        return f"{length_s / 60:.0f} min"
    if length_s < 2 * 86_400:
        return f"{length_s / 3600:.1f} h"
    return f"{length_s / 86_400:.1f} d"
