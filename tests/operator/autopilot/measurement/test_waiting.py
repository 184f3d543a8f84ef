"""What waits is believed as far as requests that came account for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline_operator.autopilot.measurement.waiting import Waiting, waiting
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.autopilot.vocabulary.window import (
    Counter,
    Histogram,
    Latency,
    StepClass,
    Window,
)
from tests.operator.autopilot.build import moments, pod

EDGES = (0.1, 1.0, 60.0, 120.0, 600.0, float("inf"))
NOW_S = 1000.0
PODS = 2


def queue_times(longest_s: float) -> Histogram:
    counts = [1.0 if edge <= longest_s else 0.0 for edge in EDGES]
    return Histogram(EDGES, tuple(counts), longest_s)


def observed(
    requests: int,
    *,
    rps: float,
    longest_s: float | None = 0.1,
    covered: float = 1.0,
    preempted: float = 0.0,
    full: bool = False,
    computes: bool = False,
    newest: int = 60,
) -> FleetObservation:
    """Two pods, all that waits on the first; what came in as many slices of 5 s."""
    steps = {StepClass.MIXED: moments((256.0, 3.0, 900.0, 0.0, 0.05))} if computes else {}
    queued = {} if longest_s is None else {Latency.QUEUE: queue_times(longest_s)}
    slices = tuple(
        Window(
            start_s=start_s,
            end_s=start_s + 5.0,
            pod_seconds=5.0 * PODS * covered,
            counters={Counter.REQUESTS_RECEIVED: 5.0 * rps, Counter.PREEMPTIONS: preempted},
            histograms=queued,
            steps=steps,
        )
        for start_s in (NOW_S - 5.0 * back for back in range(newest, 0, -1))
    )
    usage = 0.95 if full else 0.2
    first = pod(1, waiting=requests, waiting_tokens=100 * requests, running=3, kv_usage=usage)
    return FleetObservation(now_s=NOW_S, pods=(first, pod(2)), slices=slices)


def of(requests: float, tokens: float) -> Waiting:
    return Waiting(requests=requests, interactive=requests, tokens=tokens)


@pytest.mark.parametrize(
    ("seen", "believed"),
    [
        pytest.param(observed(500, rps=0.0), 0, id="nobody has come"),
        pytest.param(observed(500, rps=2.0), 60, id="others are taken at once"),
        pytest.param(observed(50, rps=2.0), 50, id="so many came in half a minute"),
        pytest.param(observed(200, rps=2.0, longest_s=60.0), 180, id="others waited a minute"),
        pytest.param(observed(500, rps=1.0, longest_s=None), 30, id="nobody is taken, in vain"),
        pytest.param(
            observed(500, rps=1.0, longest_s=None, computes=True), 300, id="a long prompt is first"
        ),
        pytest.param(observed(500, rps=2.0, longest_s=600.0), 500, id="longer than is remembered"),
        pytest.param(observed(500, rps=0.0, full=True), 500, id="the engine is full"),
        pytest.param(observed(500, rps=0.0, covered=0.5), 500, id="half was not measured"),
        pytest.param(observed(500, rps=0.0, newest=4), 500, id="measured for 20 s"),
        pytest.param(observed(500, rps=0.0, newest=0), 500, id="measured just now"),
        pytest.param(observed(50, rps=0.0, preempted=2.0), 12, id="preempted ones wait again"),
    ],
)
def test_no_more_waits_than_can_have_come(seen: FleetObservation, believed: int) -> None:
    found = waiting(seen)
    assert found == of(pytest.approx(believed), pytest.approx(100 * believed))


def test_what_an_engine_without_a_report_says_is_believed() -> None:
    seen = observed(500, rps=0.0)
    silent = tuple(replace(each, tunables=None) for each in seen.pods)
    assert waiting(replace(seen, pods=silent)) == of(500, 50_000)


def test_a_pod_that_has_just_come_makes_nothing_uncertain() -> None:
    seen = observed(500, rps=0.0, covered=0.5)
    pods = (seen.pods[0], replace(seen.pods[1], ready_since_s=NOW_S))
    assert waiting(replace(seen, pods=pods)).requests == 0


def test_tiers_are_counted_apart() -> None:
    seen = observed(40, rps=2.0)
    first = replace(seen.pods[0], batch_waiting=30)
    found = waiting(replace(seen, pods=(first, seen.pods[1])))
    assert found == Waiting(requests=40, interactive=10, tokens=4000)
