from __future__ import annotations

import pytest

from paceline_operator.cli import wording
from tests.operator.cli.sample import NOW


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (4.25, "4.2 ms"), (43.4, "43 ms"), (1234.0, "1.23 s"), (12345.0, "12.3 s")],
)
def test_latency(value: float | None, text: str) -> None:
    assert wording.latency(value) == text


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (None, "-"),
        ("2026-01-01T12:00:00Z", "30s"),
        ("2026-01-01T12:01:00Z", "0s"),
        ("2026-01-01T11:50:30Z", "10m"),
        ("2026-01-01T07:00:30Z", "5h"),
        ("2025-12-20T12:00:30Z", "12d"),
    ],
)
def test_age(time: str | None, text: str) -> None:
    assert wording.age(time, NOW) == text
