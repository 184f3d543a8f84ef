"""Peaks over a window."""

from __future__ import annotations

from bench.conformance.policies.gauge_history import GaugeHistory
from tests.bench.conformance.policies.observed import fleet, pod, stale


def test_peaks_are_of_the_window_and_of_each_pod() -> None:
    history = GaugeHistory(60.0)
    history.note(fleet((pod(1, waiting=7), pod(2, kv_usage=0.5))), 0.0)
    quiet = fleet((pod(1, waiting=1), pod(2, kv_usage=0.2)))
    history.note(quiet, 30.0)
    assert [(p.waiting, p.kv_usage) for p in history.peaks(quiet)] == [(7, 0.0), (0, 0.5)]
    history.note(quiet, 60.0)
    assert [(p.waiting, p.kv_usage) for p in history.peaks(quiet)] == [(1, 0.0), (0, 0.2)]


def test_only_pods_that_answer_now_have_a_peak() -> None:
    history = GaugeHistory(60.0)
    history.note(fleet((pod(1, waiting=7), pod(2, waiting=3))), 0.0)
    seen = fleet((stale(1), pod(2)))
    history.note(seen, 5.0)
    assert [(p.pod.uid, p.waiting) for p in history.peaks(seen)] == [("uid-2", 3)]
