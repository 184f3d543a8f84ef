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


def test_burn_rates_are_shown_by_window_and_go_with_their_objective() -> None:
    shown = Instruments()
    shown.burns("d", "chat", {("ttft", "1h"): 2.5, ("ttft", "6h"): 0.5, ("itl", "1h"): 0.0})
    shown.burns("d", "chat", {("ttft", "1h"): 3.0})
    name = "paceline_operator_slo_error_budget_burn{"
    found = [x for x in generate_latest(shown.registry).decode().splitlines() if name in x]
    assert found == [f'{name}name="chat",namespace="d",slo="ttft",window="1h"}} 3.0']
    shown.forget("d", "chat")
    assert name not in generate_latest(shown.registry).decode()
