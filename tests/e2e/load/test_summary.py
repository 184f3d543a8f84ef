from __future__ import annotations

from e2e.load.record import Outcome
from e2e.load.summary import summarise
from tests.e2e.load.making import record


def test_counts_and_percentiles_by_phase() -> None:
    records = [
        record(1.0, 100.0, 10.0, 30.0, phase="before"),
        record(2.0, 300.0, 20.0, phase="step"),
        record(3.0, None, outcome=Outcome.LOST, phase="step"),
        record(4.0, None, outcome=Outcome.REFUSED, phase="step"),
    ]
    summary = summarise(records)
    assert (summary["requests"], summary["ok"], summary["lost"]) == (4, 2, 1)
    assert summary["ttft_ms"] == {"p50": 100.0, "p95": 300.0, "p99": 300.0}
    assert summary["itl_ms"]["p50"] == 20.0
    assert list(summary["phases"]) == ["before", "step"]
    assert summary["phases"]["step"]["refused"] == 1
    assert summary["phases"]["before"]["output_tokens"] == 3


def test_nothing_sent_is_all_zero() -> None:
    summary = summarise([])
    assert (summary["requests"], summary["ttft_ms"]["p95"], summary["phases"]) == (0, None, {})
