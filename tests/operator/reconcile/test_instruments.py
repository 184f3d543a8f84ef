from __future__ import annotations

from prometheus_client import generate_latest

from paceline_operator.reconcile.instruments import Instruments


def test_a_removed_objective_leaves_no_series() -> None:
    shown = Instruments()
    shown.attain("d", "chat", {"ttft": 0.99, "itl": 0.5})
    shown.attain("d", "other", {"itl": 0.7})
    shown.attain("d", "chat", {"ttft": 0.98})
    text = generate_latest(shown.registry).decode()
    found = [line for line in text.splitlines() if line.startswith("paceline_operator_slo")]
    assert [line.partition("slo=")[2] for line in found] == ['"itl"} 0.7', '"ttft"} 0.98']
