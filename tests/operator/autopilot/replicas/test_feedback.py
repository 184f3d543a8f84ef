"""When measured violations alone may ask for a replica."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, inf

import pytest

from paceline_operator.api.v1alpha1 import SloMetric
from paceline_operator.autopilot.learning import learned
from paceline_operator.autopilot.replicas.need import need
from paceline_operator.autopilot.replicas.pending import backlog_rps
from paceline_operator.autopilot.situation.situation import Situation, understand
from paceline_operator.autopilot.vocabulary.arbitration import Cause
from paceline_operator.autopilot.vocabulary.decision import Reason
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.autopilot.vocabulary.window import (
    Counter,
    Histogram,
    Latency,
    SloCounts,
    StepClass,
    slo_key,
)
from tests.operator.autopilot.build import ITL, auto, fleet, moments, pod, window
from tests.operator.autopilot.replicas.test_capacity_evidence import capacity_rps, served

NOW = 1000.0


def decoding(rows: tuple[int, ...], steps: int, fixed_ms: float, per_row_ms: float) -> Situation:
    """A minute of decode-only steps on one replica, all gaps of which miss 100 ms."""
    each = [(0.0, float(r), 200.0 * r, 0.0, (fixed_ms + per_row_ms * r) / 1e3) for r in rows]
    made = (each * steps)[: steps // 12]
    slices = tuple(
        window(
            NOW - 5 * n - 5,
            NOW - 5 * n,
            steps={StepClass.DECODE_ONLY: moments(*made)},
            counters={Counter.REQUESTS_RECEIVED: 0.1, Counter.PROMPT_TOKENS_RECEIVED: 10.0},
            slo={slo_key(ITL, "ITL", 100): SloCounts(0, len(made) * sum(rows) / len(rows))},
        )
        for n in reversed(range(12))
    )
    given, seen = auto(None, 100), fleet(pods=1, slices=slices)
    return understand(given, seen, learned(given, seen, Memory(), NOW), NOW)


CASES = {
    "one sequence, slow by itself": ((1,), 480, 150.0, 10.0, False),
    "one sequence, few steps": ((1,), 36, 150.0, 10.0, False),
    "several, each slow by itself": ((2, 4), 480, 150.0, 10.0, False),
    "several, slow together": ((9, 10, 11), 480, 10.0, 12.0, True),
    "several, slow together, few steps": ((2, 30), 24, 95.0, 4.0, False),
}


@pytest.mark.parametrize("name", CASES)
def test_a_replica_is_ordered_only_for_sequences_that_it_would_take_over(name: str) -> None:
    rows, steps, fixed_ms, per_row_ms, ordered = CASES[name]
    s = decoding(rows, steps, fixed_ms, per_row_ms)
    assert s.cause is Cause.DECODE
    found = need(s, feasible=True)
    assert (found.wanted > 1) is ordered, found.message
    assert (found.reason is Reason.ITL_DECODE_BOUND) is ordered


def late(
    good: float, *, pods: int = 2, starting: int = 0, overdue: bool = False, use: float = 0.9
) -> Situation:
    """Replicas that the model thinks are not quite busy, whose first tokens come too late."""
    s = served(pods * use * capacity_rps(), good, pods=pods)
    begun_s = NOW - (1000.0 if overdue else 10.0)
    young = tuple(
        pod(90 + n, ready=False, ready_since_s=None, created_s=begun_s) for n in range(starting)
    )
    seen = replace(s.fleet, pods=(*s.fleet.pods, *young), desired_replicas=pods + starting)
    given = replace(s.policy, tuning_mode="Off", max_replicas=24)
    return understand(given, seen, Memory(), NOW)


@pytest.mark.parametrize(("pods", "good"), [(2, 0.90), (4, 0.85), (4, 0.5), (6, 0.3)])
def test_the_later_first_tokens_are_the_more_replicas_are_asked_for(pods: int, good: float) -> None:
    """The power of the rate that capacity evidence goes by, from what surely is late."""
    found = need(late(good, pods=pods), feasible=True)
    assert found.reason is Reason.TTFT_QUEUE
    by_mean = min(2.0, ((1 - good) / 0.035) ** (1 / 4.7))
    assert pods < found.wanted <= max(pods + 1, ceil(pods * by_mean))
    assert found.wanted >= pods * min(1.8, (0.8 * (1 - good) / 0.035) ** (1 / 4.7))


@pytest.mark.parametrize(("pods", "wanted"), [(8, 9), (9, 9), (12, 12), (20, 20)])
def test_where_many_more_have_not_helped_no_more_are_asked_for(pods: int, wanted: int) -> None:
    """Half of what is asked comes too late, and the load would fit on three."""
    found = need(late(0.5, pods=pods, use=0.9 * 3 / pods), feasible=True)
    assert found.forecast == 3
    assert (found.wanted, found.reason) == (wanted, Reason.TTFT_QUEUE)
    if wanted == pods:
        assert found.message.endswith("the model asks for 3. Something else delays them.")


def test_no_more_than_twice_what_the_model_asks_for() -> None:
    """Pods that are half idle by the model: more of them may not be what is missing."""
    found = need(late(0.3, pods=8, use=0.3), feasible=True)
    assert (found.reason, found.wanted) == (Reason.TTFT_QUEUE, 9)


def test_a_little_late_is_one_more_at_least() -> None:
    assert need(late(0.92, pods=1), feasible=True).wanted == 2
    assert need(late(0.5, pods=1), feasible=True).wanted == 2


def test_while_replicas_are_on_the_way_nothing_more_is_asked_for() -> None:
    found = need(late(0.5, pods=4, starting=1), feasible=True)
    assert found.reason is not Reason.TTFT_QUEUE


def test_orders_that_are_stuck_are_not_added_to() -> None:
    found = need(late(0.5, pods=4, starting=1, overdue=True), feasible=True)
    assert found.reason is not Reason.TTFT_QUEUE


def test_with_a_backlog_late_first_tokens_ask_for_no_more_than_one() -> None:
    s = late(0.3, pods=4)
    waiting = tuple(replace(p, waiting=900, waiting_tokens=1_350_000) for p in s.fleet.pods)
    queued = understand(s.policy, replace(s.fleet, pods=waiting), Memory(), NOW)
    assert backlog_rps(queued) > 0
    found = need(queued, feasible=True)
    assert found.late_times in (None, 1.0)


@pytest.mark.parametrize(("computed", "is_one_more"), [(1.2, True), (0.8, False)])
def test_while_a_queue_becomes_shorter_it_is_one_more(computed: float, is_one_more: bool) -> None:
    """One that the fleet clears before another replica serves: none is asked for because of it."""
    s = late(0.3, pods=4, use=0.6)
    prompts = moments((computed * s.fleet.slices[0].offered_tokens, 0.0, 0.0, 0.0, 1.0))
    slices = tuple(replace(w, steps={StepClass.PREFILL_ONLY: prompts}) for w in s.fleet.slices)
    waiting = tuple(replace(p, waiting=20, waiting_tokens=30_000) for p in s.fleet.pods)
    queued = replace(s, fleet=replace(s.fleet, pods=waiting, slices=slices))
    assert backlog_rps(queued) == 0
    found = need(queued, feasible=True)
    assert (found.reason, found.late_times == 1.0) == (Reason.TTFT_QUEUE, is_one_more)
    assert (found.wanted == 5) is is_one_more


def test_whole_answers_that_are_late_ask_for_one_more() -> None:
    s = late(1.0, pods=4)
    answer = Objective(name="answer", metric=SloMetric.E2E, target_ms=1000)
    missed = {slo_key("answer", "E2E", 1000): SloCounts(10, 90)}
    slices = tuple(replace(w, slo={**w.slo, **missed}) for w in s.fleet.slices)
    given = replace(s.policy, objectives=(*s.policy.objectives, answer))
    found = need(understand(given, replace(s.fleet, slices=slices), Memory(), NOW), feasible=True)
    assert (found.reason, found.wanted) == (Reason.TTFT_QUEUE, 5)


def test_edges_of_a_histogram_count_for_what_is_late_at_least() -> None:
    """All samples lie in the bucket around the target: perhaps none is late."""
    s = late(0.5, pods=4)
    edges, target = (0.25, 1.0, inf), 500
    slices = tuple(
        replace(w, slo={}, histograms={Latency.TTFT: Histogram(edges, (0.0, 90.0, 0.0), 45.0)})
        for w in s.fleet.slices
    )
    assert s.policy.objectives[0].target_ms == target
    found = need(
        understand(s.policy, replace(s.fleet, slices=slices), Memory(), NOW), feasible=True
    )
    assert found.reason is not Reason.TTFT_QUEUE
