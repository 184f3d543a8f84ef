"""The verdict and the table of a comparison."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bench.streams import Burst
from bench.table import Sample, judge, markdown, percentile

OURS, THEIRS = "ours", "theirs"


def sample(name: str, tokens_per_s: float, others: float = 0.0) -> Sample:
    burst = Burst(
        wall_s=2.0,
        output_tokens=round(2 * tokens_per_s),
        ttft_ms=(100.0, 200.0, 300.0),
        gap_ms=(10.0, 20.0),
    )
    return Sample(name, burst, others)


@pytest.mark.parametrize(
    ("ours", "theirs", "others", "word", "ratio"),
    [
        ([200, 210, 190], [100, 100, 100], 0.0, "ok", 2.0),
        ([100, 100, 100], [100, 100, 100], 0.1, "ok", 1.0),
        ([99, 99, 200], [100, 100, 100], 0.0, "short", 0.99),
        ([200, 200, 200], [100, 100, 100], 0.11, "void", 2.0),
        # Rounds are compared one by one: both sides suffer a slow round together.
        ([50, 200, 210], [40, 100, 100], 0.0, "ok", 2.0),
    ],
)
def test_verdict(
    ours: list[int], theirs: list[int], others: float, word: str, ratio: float
) -> None:
    samples = [sample(OURS, rate, others) for rate in ours]
    samples += [sample(THEIRS, rate) for rate in theirs]
    verdict = judge(samples, OURS, THEIRS)
    assert verdict.word == word
    assert verdict.ratio == pytest.approx(ratio)
    assert verdict.line.startswith(f"bench-quick: {word} ratio={ratio:.2f} ")


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([5.0], 50, 5.0), ([1, 2, 3, 4], 50, 2), ([1, 2, 3, 4], 95, 4), (list(range(100)), 95, 94)],
)
def test_percentile_is_a_value_that_occurred(
    values: list[float], percent: int, expected: float
) -> None:
    assert percentile(values, percent) == expected


def test_table_shows_medians_spread_and_machine() -> None:
    samples = [sample(OURS, 100), sample(THEIRS, 50), sample(OURS, 140), sample(THEIRS, 60)]
    verdict = judge(samples, OURS, THEIRS)
    page = markdown(samples, verdict, {"processor": "x"}, datetime(2026, 1, 2, 3, 4, tzinfo=UTC))
    assert "| ours | 120 (100-140) | 200 (200-200), 300 (300-300) |" in page
    assert "- processor: x" in page
    assert verdict.line in page
