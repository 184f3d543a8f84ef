"""Failure modes of the replica knob; numbers are those of docs/failure-modes.md."""

from __future__ import annotations

from itertools import pairwise

import pytest

from paceline_operator.autopilot.vocabulary.decision import Action, Knob, Reason
from paceline_operator.domain.verdicts import Sight, conflict, scaling_limited
from paceline_operator.simulator.fleet.faults import Autoscaled, NoRoom, PodsStuck, ScaleWritten
from paceline_operator.simulator.loads.lengths import LogNormal, LogNormalLengths
from paceline_operator.simulator.loads.rates import Constant, Piecewise, Segment, Step
from paceline_operator.simulator.loads.single_turns import SingleTurns, Stage
from paceline_operator.simulator.scoring.outcome import COMPLETED, UNFINISHED
from tests.operator.simulator.scenario import (
    Run,
    Service,
    chat,
    lengths,
    play,
)

CALM = lengths(800, 20)
"""Little work in few requests, where only what the loops do with them matters."""


@pytest.mark.parametrize("cold_start_s", [30.0, 120.0, 300.0])
def test_02_the_loops_do_not_swing(cold_start_s: float) -> None:
    service = Service(replicas=3, cold_start_s=cold_start_s)
    run = play(service, chat(Step(rps=1.0, before_s=400.0, step_s=900.0, after_s=700.0)))
    assert max(run.desired()) >= 6
    assert run.reversals(Knob.REPLICAS) <= 1
    assert run.reversals(Knob.BUDGET) <= 3


@pytest.mark.behaviour(
    "replicas that start count: no order is repeated while they load",
    report="vllm-project/aibrix#2670: doubled at each look while pods loaded",
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_03_ten_minutes_until_a_pod_serves(seed: int) -> None:
    service = Service(replicas=3, cold_start_s=600.0)
    load = chat(Step(rps=1.0, before_s=400.0, step_s=2800.0, after_s=1.0))
    run = play(service, load, seed=seed)
    final = run.desired(3100.0)[-1]
    assert final >= 6
    assert max(run.desired()) <= 1.3 * final


@pytest.mark.behaviour(
    "load is counted in tokens: longer prompts bring replicas without more requests",
    report="llm-d/llm-d-autoscaling#1213, kserve/kserve#3561, vllm-project/vllm#38025: "
    "counts of requests hid the work",
)
def test_09_more_tokens_without_more_requests() -> None:
    cold_start_s, burst_s = 120.0, 400.0
    stages = (Stage(0.0, lengths(400, 60, most=1024)), Stage(burst_s, lengths(1600, 60, most=6144)))
    load = SingleTurns(rates=Constant(rps=2.4, duration_s=1100.0), stages=stages)
    run = play(Service(replicas=3, cold_start_s=cold_start_s), load)
    assert max(run.desired(burst_s)) >= 1.5 * run.desired(0.0, burst_s)[-1]
    recovery_s = run.late_s(burst_s)
    assert recovery_s is not None
    assert recovery_s <= 2.5 * cold_start_s


def yielding(run: Run, from_s: float, to_s: float) -> bool:
    """Whether replicas were left to somebody all the time, and nobody fought."""
    moments = run.moments(from_s, to_s)
    told = [conflict(Sight(yielded=dict(m.seen.yielded))).status for m in moments]
    return bool(moments) and set(told) == {"True"} and not run.moves(Knob.REPLICAS, from_s, to_s)


@pytest.mark.behaviour(
    "another autoscaler on the same replicas is a conflict, and no fight",
    report="llm-d/llm-d-autoscaling#197, vllm-project/aibrix#1661: "
    "several scalers moved one workload",
)
def test_16_an_autoscaler_on_the_same_target() -> None:
    service = Service(replicas=2, cold_start_s=30.0)
    run = play(
        service,
        chat(Constant(rps=0.5, duration_s=1400.0), CALM),
        faults=[Autoscaled(start_s=202.0, end_s=400.0, replicas=5)],
    )
    assert yielding(run, 205.0, 1000.0)
    assert set(run.desired(215.0, 1000.0)) == {5}
    # Ten minutes after it is gone the knob is taken up again.
    after = run.moves(Knob.REPLICAS, 1000.0)
    assert after
    assert after[0].after < 5
    assert not run.moments()[-1].seen.yielded


def test_16_somebody_who_writes_again_and_again() -> None:
    writes = [ScaleWritten(at_s=200.0 + 100.0 * n, replicas=5 - n % 2) for n in range(4)]
    service = Service(replicas=2, cold_start_s=30.0)
    run = play(service, chat(Constant(rps=0.5, duration_s=1300.0), CALM), faults=writes)
    assert yielding(run, 305.0, 1100.0)
    assert run.desired(505.0, 1100.0) == [4] * 119
    assert not run.moments()[-1].seen.yielded


@pytest.mark.behaviour(
    "a manual scale stands for a minute, then the autopilot goes on",
    report="ai-dynamo/dynamo#4420: a manual edit was seen and stayed for good",
)
def test_16_one_manual_scale_is_a_disturbance() -> None:
    service = Service(replicas=2, cold_start_s=30.0)
    run = play(
        service,
        chat(Constant(rps=0.5, duration_s=900.0), CALM),
        faults=[ScaleWritten(at_s=301.0, replicas=6)],
    )
    assert set(run.desired(310.0, 360.0)) == {6}
    moves = run.moves(Knob.REPLICAS, 301.0)
    assert moves
    assert moves[0].time_s >= 365.0
    assert run.desired()[-1] < 6
    assert run.reversals(Knob.REPLICAS) <= 1


@pytest.mark.behaviour(
    "pods that never come keep no others from going, and the limit says why",
    report="ai-dynamo/dynamo#14671, vllm-project/aibrix#617: "
    "one pod that could not start held everything",
)
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (NoRoom(start_s=0.0, pods=3), Reason.UNSCHEDULABLE),
        (PodsStuck(start_s=0.0, end_s=1e9), Reason.PENDING_STUCK),
    ],
    ids=["no node", "never ready"],
)
def test_17_pods_that_never_come(fault: NoRoom | PodsStuck, reason: Reason) -> None:
    cold_start_s, step_s, low_s = 60.0, 200.0, 500.0
    service = Service(replicas=3, cold_start_s=cold_start_s, policy={"down_window_s": 120.0})
    rates = Piecewise(
        parts=(Segment(step_s, 0.8, 0.8), Segment(300.0, 2.8, 2.8), Segment(600.0, 0.2, 0.2))
    )
    run = play(service, chat(rates, lengths(1600, 20)), faults=[fault])
    ordered = next(move for move in run.moves(Knob.REPLICAS, step_s) if move.after > 3)
    late_s = ordered.time_s + 2 * cold_start_s + 60.0
    stuck = [m for m in run.moments(late_s, low_s) if any(not p.ready for p in m.seen.pods)]
    assert stuck
    limits = [scaling_limited(Sight(tick=m.tick)) for m in stuck]
    assert {limit.reason for limit in limits} == {reason.value}
    assert max(run.desired(step_s)) <= 12
    # Those that serve are given back although others still do not come.
    served = [s.ready for s in run.result.samples if s.time_s > low_s]
    assert served[-1] <= 2
    assert run.result.cut == 0


def test_17_one_pod_that_waited_for_a_node_is_not_how_long_all_take() -> None:
    cold_start_s, room_s, low_s = 30.0, 1000.0, 1200.0
    service = Service(replicas=2, cold_start_s=cold_start_s, policy={"down_window_s": 120.0})
    rates = Piecewise(
        parts=(Segment(200.0, 0.6, 0.6), Segment(1000.0, 1.4, 1.4), Segment(900.0, 0.3, 0.3))
    )
    fault = NoRoom(start_s=0.0, end_s=room_s, pods=2)
    run = play(service, chat(rates, lengths(1600, 20)), faults=[fault])
    last = run.moments()[-1]
    assert max(last.tick.memory.cold_starts_s) > 10 * cold_start_s
    decision = run.decisions(Knob.REPLICAS, low_s)[-1]
    assert decision.inputs["coldStartS"] <= 3 * cold_start_s
    # Replicas are given back as where nobody waited: after the down window, not many waits later.
    inward = [m.time_s for m in run.moves(Knob.REPLICAS, low_s) if m.after < m.before]
    assert inward
    assert inward[0] <= low_s + 400.0
    assert min(run.desired(low_s)) == 1


@pytest.mark.behaviour(
    "scale-in cuts no request, however long its answer",
    report="ai-dynamo/dynamo#13559: requests were aborted 5 s after SIGTERM",
)
def test_18_scale_in_under_long_streams() -> None:
    """Answers with a 99th percentile of 15,000 tokens: minutes, longer than a drain may take."""
    endless = LogNormalLengths(
        prompt=LogNormal(mean=300, sigma=0.5, most=1000),
        output=LogNormal(mean=1500, sigma=1.4, most=30_000),
    )
    law = Service(law=None).config().engine.law
    service = Service(law=law, ttft_ms=3000, itl_ms=100, replicas=6, cold_start_s=30.0,
                      fleet={"drain_s": 60.0})  # fmt: skip
    rates = Piecewise(parts=(Segment(300.0, 1.5, 1.5), Segment(900.0, 0.1, 0.1)))
    run = play(service, chat(rates, endless), until_s=2400.0)
    tokens = sorted(o.gaps for o in run.result.outcomes)
    assert tokens[-1] > 10_000
    inward = [d for d in run.decisions(Knob.REPLICAS) if d.action is Action.SCALE_IN]
    assert inward
    assert min(s.existing for s in run.result.samples[1:]) < 6
    assert run.result.cut == 0
    assert {o.outcome for o in run.result.outcomes} <= {COMPLETED, UNFINISHED}
    marked = [sum(p.draining for p in m.seen.pods) for m in run.moments()]
    undone = sum(b < a for a, b in pairwise(marked))
    assert undone > 0
