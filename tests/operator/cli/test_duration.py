from __future__ import annotations

import pytest

from paceline_operator.cli.duration import seconds, written
from paceline_operator.cli.errors import CliError


@pytest.mark.parametrize(
    ("text", "wanted_s"),
    [("90s", 90.0), ("30m", 1800.0), ("24h", 86_400.0), ("7d", 604_800.0), ("1h30m", 5400.0),
     ("0.5h", 1800.0)],
)  # fmt: skip
def test_durations(text: str, wanted_s: float) -> None:
    assert seconds(text, "--last") == wanted_s


@pytest.mark.parametrize("text", ["", "24", "h", "24 h", "-1h", "0s", "1e3s", "24hours", "٣h x"])
def test_what_is_none(text: str) -> None:
    with pytest.raises(CliError, match=r"^--last: .* is no duration; write one such as"):
        seconds(text, "--last")


@pytest.mark.parametrize(
    ("length_s", "wanted"),
    [(45, "45 s"), (720, "12 min"), (86_400, "24.0 h"), (604_800, "7.0 d")],
)
def test_written(length_s: float, wanted: str) -> None:
    assert written(length_s) == wanted
