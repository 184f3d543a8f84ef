from __future__ import annotations

import pytest
from prometheus_client import Counter, Gauge, generate_latest

from paceline_operator.reconcile.instruments import Instruments
from tests.support.tree import ROOT


def test_a_removed_objective_leaves_no_series() -> None:
    shown = Instruments()
    shown.attain("d", "chat", {"ttft": 0.99, "itl": 0.5})
    shown.attain("d", "other", {"itl": 0.7})
    shown.attain("d", "chat", {"ttft": 0.98})
    text = generate_latest(shown.registry).decode()
    found = [line for line in text.splitlines() if line.startswith("paceline_operator_slo")]
    assert sorted(line.partition("slo=")[2] for line in found) == ['"itl"} 0.7', '"ttft"} 0.98']


def test_burn_rates_are_shown_by_window_and_go_with_their_objective() -> None:
    shown = Instruments()
    shown.burns("d", "chat", {("ttft", "1h"): 2.5, ("ttft", "6h"): 0.5, ("itl", "1h"): 0.0})
    shown.burns("d", "chat", {("ttft", "1h"): 3.0})
    name = "paceline_operator_slo_error_budget_burn{"
    found = [x for x in generate_latest(shown.registry).decode().splitlines() if name in x]
    assert found == [f'{name}name="chat",namespace="d",slo="ttft",window="1h"}} 3.0']
    shown.forget("d", "chat")
    assert name not in generate_latest(shown.registry).decode()


def test_an_object_that_is_gone_leaves_no_series() -> None:
    shown = Instruments()
    for name in ("chat", "other"):
        for family in (shown.ready, shown.slow_pods):
            family.labels("d", name).set(1)
        shown.wanted("d", name, 1, 1)
        shown.attain("d", name, {"ttft": 0.9})
        shown.burns("d", name, {("ttft", "1h"): 1.0})
        shown.decided("d", name, "budget", "hold", "ObjectivesMet")
    shown.forget("d", "chat")
    shown.forget("d", "never-seen")
    text = generate_latest(shown.registry).decode()
    assert 'name="chat"' not in text
    assert text.count('name="other"') == 7


def test_a_pass_looks_through_no_other_objects_series(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look through all of them at each pass grows with the square of the objects."""
    shown = Instruments()
    for family in (Gauge, Counter):
        monkeypatch.setattr(family, "remove_by_labels", None)
        monkeypatch.setattr(family, "collect", None)
    for _ in range(2):
        shown.attain("d", "chat", {"ttft": 0.9})
        shown.burns("d", "chat", {("ttft", "1h"): 1.0})
        shown.decided("d", "chat", "budget", "hold", "ObjectivesMet")
    shown.forget("d", "chat")


def test_every_family_is_in_the_documentation() -> None:
    page = (ROOT / "docs" / "metrics-operator.md").read_text()
    for family in Instruments().registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert f"| `{name}` | {family.type} |" in page


def test_what_is_not_known_is_no_zero() -> None:
    """A dashboard would show that a fleet was scaled away."""
    shown = Instruments()
    shown.wanted("d", "chat", 3, None)
    text = generate_latest(shown.registry).decode()
    assert 'paceline_operator_replicas_wanted{name="chat",namespace="d"} 3.0' in text
    assert "paceline_operator_max_num_batched_tokens{" not in text
    shown.wanted("d", "chat", None, None)
    assert "paceline_operator_replicas_wanted{" not in generate_latest(shown.registry).decode()


def test_every_result_of_a_pass_is_there_before_the_first() -> None:
    """A rate over a series that begins with its first failure would not see that one."""
    text = generate_latest(Instruments().registry).decode()
    assert text.count("paceline_operator_ticks_total{") == 5
    assert "_created" not in text
