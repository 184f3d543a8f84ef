from __future__ import annotations

import pytest

from paceline_operator.api.status import SloStatus
from paceline_operator.cli import wording
from tests.operator.cli.sample import NOW


def objective(**fields: object) -> SloStatus:
    given = {"name": "first-token", "metric": "TTFT", "targetMs": 1500}
    return SloStatus.model_validate({**given, **fields})


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({}, "-"),
        ({"attainmentPercent": 94.6, "samples": 130, "verdict": "Open"}, "open"),
        ({"attainmentPercent": 94.6, "samples": 900, "verdict": "Missed"}, "missed"),
        ({"attainmentPercent": 95.0, "verdict": "Open"}, "open"),
        ({"attainmentPercent": 97.0, "verdict": "Held"}, "held"),
    ],
)
def test_the_verdict_is_the_operators(fields: dict[str, object], word: str) -> None:
    assert wording.said(wording.verdict(objective(**fields))) == word


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"attainmentPercent": 95.0}, "held"),
        ({"attainmentPercent": 60.0, "samples": 900}, "open"),
        ({"attainmentPercent": 97.0, "attainmentLowPercent": 91.0}, "open"),
        ({"attainmentPercent": 97.0, "attainmentLowPercent": 95.5}, "held"),
    ],
)
def test_a_status_without_verdicts_proves_no_miss(fields: dict[str, object], word: str) -> None:
    assert wording.said(wording.verdict(objective(**fields))) == word


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


@pytest.mark.parametrize(
    ("time", "text"),
    [
        ("2026-01-01T14:05:20Z", "14:05:20 UTC"),
        ("2026-01-01T23:30:00+01:00", "22:30:00 UTC"),
        ("2026-01-02T00:00:10Z", "2026-01-02 00:00:10 UTC"),
        ("2025-12-31T23:59:59Z", "2025-12-31 23:59:59 UTC"),
        ("2026-01-02T00:30:00+01:00", "23:30:00 UTC"),
    ],
)
def test_a_time_of_another_day_has_its_date(time: str, text: str) -> None:
    assert wording.clock(time, NOW) == text
