"""Failure modes of what is measured and remembered; numbers are those of docs/failure-modes.md."""

from __future__ import annotations

from math import isfinite

import pytest

from paceline_operator.autopilot.vocabulary.decision import Knob, Reason
from paceline_operator.autopilot.vocabulary.fleet import DataClass
from paceline_operator.simulator.fleet.faults import (
    Fault,
    OperatorAway,
    PodKilled,
    ScrapesLost,
    SeriesLinger,
    WaitingKept,
)
from paceline_operator.simulator.loads.rates import Constant, Piecewise, Segment
from tests.operator.simulator.scenario import Run, Service, chat, lengths, play

CALM = lengths(800, 20)
FEEDBACK = {
    Reason.TTFT_QUEUE,
    Reason.TTFT_PRESSURE,
    Reason.ITL_PREFILL_BOUND,
    Reason.ITL_DECODE_BOUND,
    Reason.ITL_UNEXPLAINED,
}


def said(run: Run) -> list[tuple[str, int | None, int | None]]:
    """Every decision with its value before and after."""
    decisions = [d for m in run.moments() for d in m.tick.decisions]
    return [(d.reason.value, d.before, d.after) for d in decisions]


@pytest.mark.behaviour(
    "values of a pod that is gone are used by no tick",
    report="llm-d/llm-d-autoscaling#385: series of gone pods drove decisions",
)
def test_04_series_of_pods_that_are_gone() -> None:
    killed_s = 153.0
    load = chat(Constant(rps=1.0, duration_s=400.0))
    service = Service(replicas=3, cold_start_s=30.0)

    def after(*more: Fault) -> Run:
        return play(service, load, faults=[PodKilled(at_s=killed_s, place=1), *more])

    run = after(SeriesLinger(start_s=0.0, linger_s=300.0))
    first = run.moments(killed_s)[0]
    assert first.time_s <= killed_s + 10.0
    for moment in run.moments(killed_s):
        assert "uid-2" not in {pod.uid for pod in moment.seen.pods}
    # Nothing of it gets into any sum: all is as where its series end with it.
    assert said(run) == said(after())


OUTAGE_S = 600.0


@pytest.mark.behaviour(
    "no replica goes while metrics are out, nor for one down window after",
    report="ai-dynamo/dynamo#14575: an outage was recorded as zeros",
)
@pytest.mark.parametrize(
    ("rates", "before"),
    [
        ((Segment(700.0, 1.6, 1.6), Segment(900.0, 0.3, 0.3)), "peak"),
        ((Segment(700.0, 0.3, 0.3), Segment(900.0, 1.6, 1.6)), "trough"),
    ],
    ids=["peak", "trough"],
)
def test_06_ten_minutes_without_metrics(rates: tuple[Segment, ...], before: str) -> None:
    """The load changes while nobody can see it."""
    start_s, end_s = 402.0, 402.0 + OUTAGE_S
    service = Service(replicas=4 if before == "peak" else 2, cold_start_s=30.0,
                      policy={"min_replicas": 2, "down_window_s": 120.0})  # fmt: skip
    run = play(
        service,
        chat(Piecewise(parts=rates), lengths(1600, 20)),
        faults=[ScrapesLost(start_s=start_s, end_s=end_s)],
        until_s=1500.0,
    )
    held = run.desired(start_s - 5.0, start_s)[-1]
    assert min(run.desired(start_s, end_s)) >= held >= 2
    assert {m.tick.data for m in run.moments(start_s + 20.0, end_s)} == {
        DataClass.STALE, DataClass.ABSENT,
    }  # fmt: skip
    # Not before a whole down window was seen again.
    inward = [m for m in run.moves(Knob.REPLICAS, start_s) if m.after < m.before]
    assert all(move.time_s >= end_s + 120.0 for move in inward)
    assert run.moments()[-1].tick.data is DataClass.FRESH
    if before == "peak":
        assert run.desired()[-1] < held
    else:
        assert max(run.desired(end_s, end_s + 60.0)) > held
        assert run.goodput(end_s + 180.0) >= 0.95


@pytest.mark.behaviour(
    "a pod whose metrics never answer is estimated and leaves first, and keeps no other",
    report="vllm-project/aibrix#1032: one pod that did not report blocked all scaling",
)
@pytest.mark.parametrize(("lost", "left"), [({1}, 1), ({1, 2, 3}, 6)], ids=["one", "half"])
def test_06_pods_of_which_metrics_never_answer_again(lost: set[int], left: int) -> None:
    """One in six is estimated and leaves first; of half of them nobody knows what they serve."""
    service = Service(replicas=6, cold_start_s=30.0,
                      policy={"min_replicas": 1, "down_window_s": 120.0})  # fmt: skip
    rates = Piecewise(parts=(Segment(300.0, 2.0, 2.0), Segment(1500.0, 0.3, 0.3)))
    fault = ScrapesLost(start_s=60.0, pods=frozenset(lost))
    run = play(service, chat(rates, lengths(1600, 20)), faults=[fault])
    # Nothing leaves before it is clear that nothing will be told any more.
    assert min(run.desired(0.0, 360.0)) == 6
    assert min(run.desired(360.0)) == left
    assert run.result.cut == 0
    assert run.goodput() >= 0.95
    last = run.moments()[-1]
    if left == 6:
        assert last.tick.scaling_limit is not None
        assert last.tick.scaling_limit.reason is Reason.PODS_UNMEASURED
        assert "pod-1" in last.tick.scaling_limit.message
        return
    assert last.tick.scaling_limit is None
    assert last.tick.data is DataClass.FRESH
    first = next(m for m in run.moments() if len(m.seen.serving) < 6)
    assert "uid-1" not in {pod.uid for pod in first.seen.serving}


@pytest.mark.behaviour(
    "without traffic replicas go to the minimum, and every figure is finite",
    report="ai-dynamo/dynamo#6985: never scaled in at no traffic, since one figure was no number",
)
def test_07_fifteen_minutes_of_nothing() -> None:
    service = Service(replicas=4, cold_start_s=30.0)
    rates = Piecewise(parts=(Segment(240.0, 1.6, 1.6), Segment(900.0, 0.0, 0.0)))
    run = play(service, chat(rates))
    assert run.desired()[-1] == 1
    assert run.result.samples[-1].existing == 1
    assert run.moments()[-1].tick.data is DataClass.FRESH
    figures = run.figures()
    assert len(figures) > 1000
    assert all(isfinite(figure) for figure in figures)
    assert run.result.cut == 0


@pytest.mark.behaviour(
    "requests that are counted as waiting after their clients have gone keep no replica",
    report="llm-d/llm-d-autoscaling#769: phantom waiting requests blocked scale-in for good",
)
@pytest.mark.parametrize("rps", [0.0, 0.3], ids=["no load", "little load"])
@pytest.mark.parametrize("requests", [3, 2000])
def test_requests_that_wait_and_have_no_client(rps: float, requests: int) -> None:
    service = Service(replicas=4, cold_start_s=30.0, policy={"down_window_s": 120.0})
    rates = Piecewise(parts=(Segment(240.0, 1.6, 1.6), Segment(900.0, rps, rps)))
    load = chat(rates, lengths(1600, 20))
    kept = WaitingKept(start_s=200.0, requests=requests, tokens=1600 * requests)
    run, sound = play(service, load, faults=[kept]), play(service, load)
    ours, theirs = run.desired(300.0), sound.desired(300.0)
    assert min(ours) == min(theirs) == 1
    # What came within half a minute may still seem to wait, and makes a chance step likelier.
    assert sum(ours) <= 1.1 * sum(theirs)
    assert max(ours) <= max(theirs)
    assert run.goodput() >= 0.95
    assert run.result.cut == 0


@pytest.mark.parametrize("seed", [1, 2])
def test_19_a_request_every_five_seconds(seed: int) -> None:
    service = Service(replicas=1, cold_start_s=60.0)
    run = play(service, chat(Constant(rps=0.2, duration_s=1500.0)), seed=seed)
    assert len(run.result.outcomes) > 200
    acted = {d.reason for m in run.moments() for d in m.tick.decisions if d.applied}
    assert not acted & FEEDBACK
    assert {m.tick.memory.capacity_factor for m in run.moments()} == {1.0}
    assert max(run.desired()) <= 2


@pytest.mark.behaviour(
    "at low traffic a few long prompts, or a few requests together, bring no replica",
    report="one prompt of five times the mean in 5 s was a surge: 1.4 replicas where 1 holds all",
)
@pytest.mark.parametrize(
    ("rps", "replicas", "most_moves", "mean"), [(0.2, 1, 0, 1.0), (1.0, 2, 8, 2.3)]
)
@pytest.mark.parametrize("seed", [1, 2])
def test_19_chance_at_low_traffic(
    rps: float, replicas: int, most_moves: int, mean: float, seed: int
) -> None:
    service = Service(replicas=replicas, cold_start_s=60.0)
    run = play(service, chat(Constant(rps=rps, duration_s=7200.0), lengths(1600, 20)), seed=seed)
    desired = run.desired()
    assert len(run.moves(Knob.REPLICAS)) <= most_moves
    assert sum(desired) / len(desired) <= mean
    assert run.goodput() >= 0.95


@pytest.mark.parametrize("away_s", [0.0, 15.0], ids=["killed", "leader changes"])
def test_20_another_operator_every_seven_minutes(away_s: float) -> None:
    kills = [OperatorAway(start_s=420.0 * n, end_s=420.0 * n + away_s) for n in range(1, 5)]
    rates = Piecewise(
        parts=(Segment(600.0, 0.8, 0.8), Segment(700.0, 1.8, 1.8), Segment(600.0, 0.8, 0.8))
    )
    service = Service(replicas=2, cold_start_s=60.0, policy={"down_window_s": 120.0})
    load = chat(rates, lengths(1600, 20))
    run, calm = play(service, load, faults=kills), play(service, load)
    assert run.desired()[-1] == calm.desired()[-1]
    ours, theirs = run.budgets()[-1], calm.budgets()[-1]
    assert abs(ours - theirs) <= 0.12 * theirs + 16
    # No dip: while the load is high never fewer than the uninterrupted one makes do with.
    assert min(run.desired(800.0, 1300.0)) >= min(calm.desired(800.0, 1300.0)) > 2
    assert run.goodput() >= calm.goodput() - 0.01
    assert run.reversals(Knob.REPLICAS) <= calm.reversals(Knob.REPLICAS)
    assert run.result.cut == 0
