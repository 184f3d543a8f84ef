"""Controllers side by side."""

from __future__ import annotations

from bench.conformance.policies.combined import Combined
from bench.conformance.policies.keda import WAITING, keda
from bench.conformance.policies.site import ReplicaBounds
from bench.conformance.policies.static import Static
from paceline_operator.autopilot.vocabulary.fleet import Tunables
from paceline_operator.simulator.controller import NOTHING
from tests.bench.conformance.policies.observed import gauges

KNOBS = Tunables(max_num_batched_tokens=2048, max_num_running_seqs=64)


def test_each_sets_its_own_knob_when_it_is_due() -> None:
    parts = (Static(tunables=KNOBS), keda(WAITING, ReplicaBounds()))
    both = Combined(parts)
    first = both.decide(gauges(10, 10), 0.0)
    assert (first.replicas, first.tunables, first.reason) == (4, KNOBS, "Static+Hpa")
    assert both.next_due_s == parts[1].next_due_s
    assert both.decide(gauges(30, 30, 30, 30), 5.0) is NOTHING
    later = both.decide(gauges(30, 30, 30, 30), 15.0)
    assert (later.replicas, later.tunables) == (8, None)
