"""Knobs that are set once."""

from __future__ import annotations

from bench.conformance.policies.static import Static
from paceline_operator.autopilot.vocabulary.fleet import Tunables
from paceline_operator.simulator.controller import NOTHING, Orders
from tests.bench.conformance.policies.observed import fleet

KNOBS = Tunables(max_num_batched_tokens=2048, max_num_running_seqs=64)


def test_it_speaks_once() -> None:
    rule = Static(replicas=7, tunables=KNOBS)
    assert rule.next_due_s < 0
    assert rule.decide(fleet(2), 0.0) == Orders(replicas=7, tunables=KNOBS, reason="Static")
    assert rule.next_due_s == float("inf")
    assert rule.decide(fleet(2), 5.0) == NOTHING


def test_what_is_not_given_is_left_alone() -> None:
    orders = Static(tunables=KNOBS).decide(fleet(2), 0.0)
    assert (orders.replicas, orders.tunables) == (None, KNOBS)
