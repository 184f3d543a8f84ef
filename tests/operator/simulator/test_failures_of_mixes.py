"""Failure modes of what is asked and how it is dealt out; numbers are of docs/failure-modes.md."""

from __future__ import annotations

from math import ceil, isfinite

import pytest

from paceline_operator.autopilot.plant.workload import observe
from paceline_operator.autopilot.replicas.capacity_evidence import LEAST_FACTOR, MOST_FACTOR
from paceline_operator.autopilot.vocabulary.decision import Action, Knob, Reason
from paceline_operator.autopilot.vocabulary.window import BATCH
from paceline_operator.domain.verdicts import Sight, slo_feasible
from paceline_operator.simulator.fleet.faults import RouterSkewed, Speculating
from paceline_operator.simulator.loads.lengths import LogNormal, LogNormalLengths
from paceline_operator.simulator.loads.popularity import Popularity
from paceline_operator.simulator.loads.rates import Constant, Piecewise, Segment
from paceline_operator.simulator.loads.shared_prefixes import SharedPrefixes
from paceline_operator.simulator.loads.single_turns import SingleTurns, Stage
from paceline_operator.simulator.loads.together import Together
from paceline_operator.simulator.scoring.score import overall
from paceline_operator.simulator.scoring.yardstick import Yardstick
from tests.operator.simulator.scenario import (
    SMALL,
    Service,
    chat,
    lengths,
    play,
)


def test_12_first_tokens_that_nothing_gives_in_time() -> None:
    """Prompts of 12,000 tokens take most of a second on an idle A100; 500 ms are asked for."""
    service = Service(profile=SMALL, law=None, ttft_ms=500, itl_ms=50, replicas=1,
                      cold_start_s=60.0)  # fmt: skip
    rate = 1.2
    long = LogNormalLengths(
        prompt=LogNormal(mean=12_000, sigma=0.9, most=100_000),
        output=LogNormal(mean=100, sigma=0.5, most=400),
    )
    run = play(service, chat(Constant(rps=rate, duration_s=900.0), long))
    judged = slo_feasible(Sight(tick=run.moments()[-1].tick))
    assert judged.status == "False"
    assert "500 ms" in judged.message
    # As many as carry the work at the law's own limits: 85 % of the time, 90 % of that.
    law = service.config().engine.law
    work_s = 12_000 * law.per_prefill_token_ms / 1e3 * 1.1
    enough = rate * work_s / (0.85 * 0.9)
    # A rise may be carried on to 1.25 times, and chance leaves one more.
    assert max(run.desired(120.0)) <= ceil(1.25 * enough) + 1
    assert Reason.TTFT_QUEUE not in {
        d.reason for d in run.decisions(Knob.REPLICAS) if d.action is Action.SCALE_OUT
    }


def test_scale_in_at_a_prefix_hit_rate_of_70_percent() -> None:
    service = Service(replicas=5, cold_start_s=60.0, policy={"down_window_s": 120.0})
    rates = Piecewise(parts=(Segment(500.0, 2.0, 2.0), Segment(900.0, 0.9, 0.9)))
    load = SharedPrefixes(
        rates=rates, own=lengths(700, 40, most=2048), prefixes=Popularity(6), prefix_blocks=4
    )
    run = play(service, load)
    hit_rates = [observe(m.seen).hit_rate for m in run.moments(300.0)]
    assert 0.6 <= sum(hit_rates) / len(hit_rates) <= 0.8
    inward = [m for m in run.moves(Knob.REPLICAS) if m.after < m.before]
    assert inward
    assert run.desired()[-1] < run.desired(490.0, 500.0)[-1]
    for move in inward:
        assert run.goodput(move.time_s, move.time_s + 120.0) >= 0.95
    assert run.reversals(Knob.REPLICAS) <= 1
    assert run.result.cut == 0


def test_prefixes_that_are_no_longer_found() -> None:
    """Each prompt then takes four times the work; what replicas carried before proves nothing."""
    lost_s, cold_start_s = 600.0, 120.0
    service = Service(replicas=2, cold_start_s=cold_start_s)
    load = SharedPrefixes(
        rates=Constant(rps=2.0, duration_s=1200.0), own=lengths(500, 40, most=1024),
        prefixes=Popularity(4), prefix_blocks=4, shared_until_s=lost_s,
    )  # fmt: skip
    run = play(service, load)
    before, after = run.desired(lost_s - 15.0, lost_s)[-1], run.desired()[-1]
    assert after >= 2 * before
    assert max(run.desired(lost_s, lost_s + 60.0)) >= 0.75 * after
    assert run.goodput(lost_s + cold_start_s + 60.0) >= 0.95
    assert run.reversals(Knob.REPLICAS) <= 1


def test_replicas_do_not_swing_behind_a_router_that_skews() -> None:
    service = Service(replicas=4, cold_start_s=60.0)
    load = chat(Constant(rps=1.4, duration_s=1700.0), lengths(1600, 20))
    run = play(service, load, faults=[RouterSkewed(start_s=400.0, end_s=800.0, share=0.5)])
    assert run.reversals(Knob.REPLICAS) <= 1


def test_a_router_that_skews() -> None:
    """Half of all requests go to one of four pods: more pods would not take them over."""
    service = Service(replicas=4, cold_start_s=60.0)
    load = chat(Constant(rps=1.4, duration_s=1700.0), lengths(1600, 20))
    start_s, end_s = 400.0, 800.0
    run = play(service, load, faults=[RouterSkewed(start_s=start_s, end_s=end_s, share=0.5)])
    even = play(service, load)
    most = max(even.desired(120.0))
    assert max(run.desired(start_s)) <= 2 * most
    # It is over: what is wanted again is what an even router needs, and objectives hold.
    assert run.desired()[-1] <= most + 1
    assert run.goodput(end_s + 200.0) >= 0.95
    assert run.result.cut == 0


def test_a_backlog_in_the_batch_tier_only() -> None:
    steady = chat(Constant(rps=0.6, duration_s=900.0), lengths(1600, 20))
    burst = Piecewise(
        parts=(Segment(300.0, 0.0, 0.0), Segment(30.0, 8.0, 8.0), Segment(570.0, 0.0, 0.0))
    )
    backlog = SingleTurns(rates=burst, stages=(Stage(0.0, lengths(1600, 20)),), tier=BATCH)
    service = Service(replicas=2, cold_start_s=60.0)
    run = play(service, Together((steady, backlog)))
    waiting = [sum(p.batch_waiting for p in m.seen.pods) for m in run.moments(330.0, 400.0)]
    assert min(waiting) > 20
    # Its prompts are no demand: one replica at most, where first tokens are proven late.
    out = [m for m in run.moves(Knob.REPLICAS, 300.0, 600.0) if m.after > m.before]
    assert {move.reason for move in out} <= {Reason.TTFT_QUEUE.value}
    assert max(run.desired(300.0, 600.0)) <= run.desired(0.0, 300.0)[-1] + 1
    assert run.goodput(300.0) >= 0.95


@pytest.mark.parametrize("is_paced", [True, False])
def test_speculation_that_switches_on_and_off(is_paced: bool) -> None:
    """Decodes cost half as much again and give four tokens at once, every other two minutes."""
    service = Service(replicas=3, cold_start_s=60.0, policy={"is_paced": is_paced})
    spells = [
        Speculating(start_s=start_s, end_s=start_s + 120.0, tokens=4, factor=1.5)
        for start_s in range(600, 2400, 240)
    ]
    # Evenly spaced: what moves, moves for the speculation.
    load = chat(Constant(rps=1.2, duration_s=2700.0), dispersion=0.1)
    run = play(service, load, faults=spells)
    yardstick = Yardstick(service.objectives)
    served = [each for each in run.result.outcomes if each.arrival_s >= 600.0]
    for objective in service.objectives:
        assert overall(served, lambda o, of=objective: yardstick.samples(of, o)).share >= 0.95
    assert run.goodput(600.0, 2400.0) >= 0.95
    assert run.reversals(Knob.REPLICAS) <= 1
    live = Knob.STEP_TIME if is_paced else Knob.BUDGET
    assert run.moves(live)
    assert run.reversals(live) <= 3
    assert all(isfinite(figure) for figure in run.figures())
    factors = [m.tick.memory.capacity_factor for m in run.moments()]
    assert LEAST_FACTOR < min(factors) <= max(factors) < MOST_FACTOR
    assert (run.result.cut, run.result.refusals) == (0, {})
    assert all(o.completed for o in run.result.outcomes if o.arrival_s < 2600.0)
