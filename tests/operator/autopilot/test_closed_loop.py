"""The control law against a discrete fleet: does the whole settle where it should?"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from paceline_operator.api.v1alpha1 import Mode
from paceline_operator.autopilot.vocabulary.decision import Action, Knob, Reason
from paceline_operator.autopilot.vocabulary.fleet import DataClass
from paceline_operator.autopilot.vocabulary.memory import dump_memory
from tests.operator.autopilot.build import ITL, TTFT, auto, policy
from tests.support.fleet_plant import A100_8B, A100_70B, FleetPlant, Shape, one_thread_cpu


def attained(plant: FleetPlant, name: str) -> float:
    measured = {m.name: m for m in plant.ticks[-1].slo}[name]
    assert measured.attainment is not None
    return measured.attainment


def real_fleet(mode: Mode = Mode.AUTO) -> FleetPlant:
    """Two one-thread CPU engines whose initial budget breaks the ITL objective."""
    given = policy(
        8000, 500, tuning_mode=mode, scaling_mode=Mode.OFF, replicas=2,
        batch_min=32, batch_max=1024, batch_initial=1024, max_num_seqs=16,
    )  # fmt: skip
    shape = Shape(prompt=(40, 900), output=(30, 80))
    return FleetPlant(policy=given, step_time=one_thread_cpu, rate=lambda _: 0.4, shape=shape)


def test_a_budget_that_breaks_itl_is_lowered_within_two_ticks() -> None:
    plant = real_fleet()
    plant.run(20)
    (first, *_) = plant.moves()
    assert first.action is Action.LOWER
    assert first.reason in (Reason.ABOVE_MODEL_CAP, Reason.ITL_PREFILL_BOUND)
    assert "the ITL target is 500 ms" in first.message
    plant.run(160)
    assert plant.budget <= 128
    assert attained(plant, ITL) >= 0.95
    assert len(plant.moves(60.0)) <= 1


@pytest.mark.behaviour(
    "Recommend decides and explains as Auto does, and moves nothing",
    report="ai-dynamo/dynamo#8114: a dry run was asked for before control of GPUs is given",
)
def test_recommend_says_the_same_and_does_nothing() -> None:
    plant = real_fleet(Mode.RECOMMEND)
    plant.run(60)
    assert plant.budget == 1024
    assert plant.moves() == []
    wishes = [d for d in plant.decisions if d.action is Action.LOWER]
    assert wishes
    assert all(d.guard is Reason.RECOMMEND_ONLY and d.message for d in wishes)
    assert all(d.after is not None and d.after < 200 for d in wishes)


def test_off_says_so_and_does_nothing() -> None:
    plant = real_fleet(Mode.OFF)
    plant.run(60)
    assert plant.moves() == []
    assert {d.reason for d in plant.decisions if d.knob is Knob.BUDGET} >= {Reason.MODE_OFF}


def simulated_fleet(seed: int = 1) -> FleetPlant:
    """The demo's simulated fleet: three times the load from second 60 to 180."""
    given = auto(
        2000, 120, min_replicas=2, batch_min=64, batch_max=1024, batch_initial=128,
        max_num_seqs=16, down_window_s=40.0, profile="llama-3-70b-a100-tp4",
    )  # fmt: skip
    return FleetPlant(
        policy=given,
        step_time=A100_70B,
        rate=lambda t: 12.0 if 60 <= t < 180 else 4.0,
        shape=Shape(prompt=(100, 500), output=(40, 120)),
        seed=seed,
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_load_step_is_answered_by_budget_then_replicas(seed: int) -> None:
    plant = simulated_fleet(seed)
    plant.run(60)
    assert not [d for d in plant.moves() if d.knob is Knob.REPLICAS]
    plant.run(60)
    moves = plant.moves(60.0)
    live = [d for d in moves if d.action is Action.RAISE]
    out = [d for d in moves if d.action is Action.SCALE_OUT]
    served_s = min(pod.ready_s for pod in plant.pods if pod.ready_s > 1060.0)
    assert live
    assert live[0].time_s < served_s
    assert 1 <= len(out) <= 2
    assert live[0].reason in (Reason.DEMAND_EXPECTED, Reason.TTFT_PRESSURE)
    plant.run(30)  # 90 s after the step: 2.5 cold starts and a minute
    assert attained(plant, TTFT) >= 0.95
    assert attained(plant, ITL) >= 0.95


@pytest.mark.behaviour(
    "replicas follow a load that falls",
    report="vllm-project/aibrix#593, #1159: scaled in never, or half an hour late",
)
def test_when_load_falls_replicas_follow_and_no_request_is_cut() -> None:
    plant = simulated_fleet()
    plant.run(180)
    peak = plant.replicas
    assert peak >= 3
    plant.run(30)
    assert plant.replicas == peak  # the down window of 40 s
    plant.run(210)
    inward = [d for d in plant.moves(180.0) if d.action is Action.SCALE_IN]
    gaps = [b.time_s - a.time_s for a, b in pairwise(inward)]
    assert plant.replicas == 2
    assert all(gap >= 60.0 for gap in gaps)
    assert all(r.made == r.output for r in plant.done)


@pytest.mark.parametrize("lost", [{"pod-1"}, {"pod-1", "pod-2"}])
def test_lost_scrapes_at_constant_load_order_nothing(lost: set[str]) -> None:
    plant = FleetPlant(
        policy=auto(batch_max=1024),
        step_time=A100_8B,
        rate=lambda _: 14.0,
        shape=Shape(prompt=(200, 1500), output=(50, 250)),
        replicas=2,
        dark=lambda t: lost if t in (125.0, 130.0) else set(),
    )
    plant.run(120)
    before = plant.replicas
    plant.run(60)
    assert plant.replicas == before
    assert not any(d.knob is Knob.REPLICAS for d in plant.moves(120.0))


def test_a_pod_unready_for_a_moment_does_not_delay_scale_in() -> None:
    plant = FleetPlant(
        policy=auto(down_window_s=40.0),
        step_time=A100_8B,
        rate=lambda t: 2.0 if t < 310 else 0.2,
        replicas=3,
        cold_start_s=12.0,
    )
    plant.policy = replace(plant.policy, min_replicas=3)
    plant.run(300)
    plant.pods[0].ready_s = plant.now_s + 10.0
    plant.run(20)
    assert max(plant.memory.cold_starts_s, default=0.0) <= 20.0
    plant.policy = replace(plant.policy, min_replicas=1)
    plant.run(150)
    assert plant.replicas < 3


def test_constant_load_comes_to_rest() -> None:
    plant = FleetPlant(
        policy=auto(batch_max=1024),
        step_time=A100_8B,
        rate=lambda _: 6.0,
        shape=Shape(prompt=(200, 1500), output=(50, 250)),
        replicas=3,
    )
    plant.run(240)
    plant.run(360)
    assert plant.moves(240.0) == []
    assert attained(plant, TTFT) >= 0.95
    assert attained(plant, ITL) >= 0.95


def test_a_huge_budget_is_not_mistaken_for_a_good_one() -> None:
    """p95 ITL is fine at a huge budget, where few gaps are long; the model caps it anyway."""
    plant = FleetPlant(
        policy=policy(2000, 50, scaling_mode=Mode.OFF, batch_max=8192, batch_initial=8192),
        step_time=A100_8B,
        rate=lambda _: 2.5,
        shape=Shape(prompt=(200, 3000), output=(100, 350)),
        replicas=1,
    )
    plant.run(120)
    assert 400 <= plant.budget <= 720
    assert max(t.estimate.budget_step_ms or 0.0 for t in plant.ticks[-6:] if t.estimate) < 55.0


def test_decode_bound_itl_squeezes_asks_for_replicas_and_is_restored() -> None:
    plant = FleetPlant(
        policy=auto(3000, 60, batch_max=1024, max_num_seqs=128),
        step_time=lambda p, d, _k, _x: (10 + 0.05 * p + 0.9 * d) / 1e3,
        rate=lambda t: 6.0 if t > 60 else 1.0,
        shape=Shape(prompt=(50, 100), output=(200, 400)),
        replicas=1,
    )
    plant.run(60)
    seqs: set[int] = set()
    for _ in range(30):
        plant.run(5)
        assert plant.knobs is not None
        seqs.add(plant.knobs.max_num_running_seqs)
    reasons = [d.reason for d in plant.moves(60.0)]
    assert Reason.ITL_DECODE_BOUND in reasons
    assert Reason.CAPACITY_ARRIVED in reasons
    assert min(seqs) < 64
    assert plant.knobs is not None
    assert plant.knobs.max_num_running_seqs == 128
    assert plant.replicas >= 3
    plant.run(60)
    assert attained(plant, ITL) >= 0.95


def test_a_squeeze_ends_when_traffic_stops_and_replicas_can_go() -> None:
    plant = FleetPlant(
        policy=auto(
            3000, 60, batch_max=1024, max_num_seqs=128, max_replicas=2, down_window_s=240.0
        ),
        step_time=lambda p, d, _k, _x: (10 + 0.05 * p + 0.9 * d) / 1e3,
        rate=lambda t: 1.0 if t < 60 else 8.0 if t < 140 else 0.0,
        shape=Shape(prompt=(50, 100), output=(200, 400)),
        replicas=1,
    )
    plant.run(140)
    assert plant.memory.squeezed_seqs is not None
    plant.run(500)
    assert plant.knobs is not None
    assert (plant.memory.squeezed_seqs, plant.knobs.max_num_running_seqs) == (None, 128)
    assert plant.replicas == 1


def slow_decoding(itl_ms: int, ttft_ms: int = 3000) -> FleetPlant:
    """One sequence alone takes 31 ms a token."""
    return FleetPlant(
        policy=auto(ttft_ms, itl_ms, batch_max=1024, max_num_seqs=64),
        step_time=lambda p, d, _k, _x: (30 + 0.05 * p + 0.9 * d) / 1e3,
        rate=lambda t: 1.0 if t < 60 else 6.0,
        shape=Shape(prompt=(50, 100), output=(50, 100)),
        replicas=1,
    )


def test_an_itl_target_no_replica_can_hold_costs_no_throughput() -> None:
    plant = slow_decoding(itl_ms=25)
    plant.run(60)
    budget = plant.budget
    plant.run(240)
    assert plant.ticks[-1].feasibility.feasible is False
    assert plant.knobs is not None
    assert plant.knobs.max_num_running_seqs == 64
    assert plant.budget == budget
    assert attained(plant, TTFT) >= 0.95
    assert plant.replicas <= 2  # sized by what first tokens and throughput ask for


def one_client(step_ms: float, per_row_ms: float, itl_ms: int) -> FleetPlant:
    """Requests one after another: never two at once, whatever the engine's law."""
    plant = FleetPlant(
        policy=auto(5000, itl_ms, max_replicas=4, batch_min=32, batch_max=256, max_num_seqs=16),
        step_time=lambda p, d, _k, _x: (step_ms + 0.5 * p + per_row_ms * d) / 1e3,
        rate=lambda _: 0.0 if any(pod.engine.load for pod in plant.pods) else 4.0,
        shape=Shape(prompt=(30, 60), output=(20, 30)),
        replicas=1,
    )
    return plant


@pytest.mark.parametrize(("step_ms", "per_row_ms"), [(130.0, 10.0), (20.0, 120.0)])
def test_one_client_whose_tokens_are_too_slow_orders_no_replica(
    step_ms: float, per_row_ms: float
) -> None:
    plant = one_client(step_ms, per_row_ms, itl_ms=120)
    plant.run(240)
    assert max(m.samples for m in plant.ticks[-1].slo) > 100
    assert attained(plant, ITL) < 0.5
    assert plant.replicas == 1
    assert not [d for d in plant.moves() if d.knob is Knob.REPLICAS]
    judged = plant.ticks[-1].feasibility
    assert judged.feasible is False
    assert "One sequence alone needs" in judged.message


def overloaded(stalled: float, **more: Any) -> FleetPlant:
    """Twice what two replicas hold, on a busy machine: some steps take twice as long."""
    chance = random.Random(1)

    def law(prefill: float, rows: float, _k: float, _x: float) -> float:
        took_s = (106 + 4.22 * prefill + 13 * rows) / 1e3 * chance.uniform(0.9, 1.1)
        return 2 * took_s if chance.random() < stalled else took_s

    given = policy(
        16700, 500, **{"scaling_mode": Mode.OFF, "replicas": 2, "batch_min": 32, "batch_max": 512,
                       "batch_initial": 160, "max_num_seqs": 16, **more},
    )  # fmt: skip
    shape = Shape(prompt=(240, 440), output=(16, 30))
    return FleetPlant(policy=given, step_time=law, rate=lambda _: 1.05, shape=shape)


@pytest.mark.parametrize("stalled", [0.0, 0.06, 0.1])
def test_where_no_budget_meets_both_objectives_the_budget_comes_to_rest(stalled: float) -> None:
    plant = overloaded(stalled)
    plant.run(600)
    assert len(plant.moves(300.0)) <= 2
    assert plant.replicas == 2
    tick = plant.ticks[-1]
    assert tick.feasibility.feasible is False
    assert "no budget meets the objectives, only replicas help, and scaling is Off" in (
        tick.feasibility.message
    )
    assert tick.scaling_limit is not None
    assert tick.scaling_limit.reason is Reason.MODE_OFF


def test_overload_that_replicas_may_answer_is_answered_by_them() -> None:
    plant = overloaded(0.06, scaling_mode=Mode.AUTO, max_replicas=8, cold_start_prior_s=15.0)
    plant.run(420)
    assert plant.replicas >= 4
    assert plant.ticks[-1].feasibility.feasible is not False


def test_a_ttft_target_no_replica_can_hold_does_not_end_scaling() -> None:
    plant = FleetPlant(
        policy=auto(300, 200, batch_max=1024, max_num_seqs=32),
        step_time=A100_8B,
        rate=lambda t: 0.5 if t < 120 else 5.0,
        shape=Shape(prompt=(6000, 9000), output=(20, 60)),
        replicas=1,
    )
    plant.run(120)
    assert plant.replicas == 1
    plant.run(420)  # the backlog of the step is gone as well
    assert plant.ticks[-1].feasibility.feasible is False
    work_s = 7500 * 0.0668e-3 + 8 * 0.0026  # of one prompt on one replica
    assert 5 * work_s / 0.9 <= plant.replicas <= 2 * 5 * work_s / 0.85


def test_a_slower_device_pulls_the_budget_down() -> None:
    slow = {"by": 1.0}
    plant = FleetPlant(
        policy=policy(4000, 60, scaling_mode=Mode.OFF, batch_max=2048, batch_initial=512),
        step_time=lambda p, d, k, x: slow["by"] * A100_8B(p, d, k, x),
        rate=lambda _: 2.0,
        shape=Shape(prompt=(500, 2500), output=(50, 150)),
        replicas=1,
    )
    plant.run(120)
    before = plant.budget
    slow["by"] = 1.6
    plant.run(90)
    assert plant.budget < before
    assert 1e3 * 1.6 * A100_8B(plant.budget - 8, 8, 8000, 0) <= 60


def test_long_prompts_that_cannot_meet_ttft_are_called_infeasible() -> None:
    plant = FleetPlant(
        policy=auto(300, 60, batch_max=1024, max_num_seqs=32),
        step_time=A100_8B,
        rate=lambda _: 0.5,
        shape=Shape(prompt=(6000, 9000), output=(20, 60)),
        replicas=1,
    )
    plant.run(180)
    judged = plant.ticks[-1].feasibility
    assert judged.feasible is False
    assert "the TTFT target is 300 ms" in judged.message
    assert "More replicas cannot help" in judged.message
    assert plant.replicas == 1  # never chased with replicas


def test_slow_starts_are_not_ordered_twice() -> None:
    plant = FleetPlant(
        policy=auto(batch_max=1024, cold_start_prior_s=120.0),
        step_time=A100_8B,
        rate=lambda t: 6.0 if t < 90 else 24.0,
        shape=Shape(prompt=(200, 1500), output=(50, 250)),
        replicas=2,
        cold_start_s=150.0,
    )
    plant.run(300)
    out = [d for d in plant.moves(90.0) if d.action is Action.SCALE_OUT]
    needed = 24.0 / 9.0  # one replica holds about 9 requests/s
    assert 1 <= len(out) <= 3
    assert plant.replicas <= 2 * needed + 1  # the backlog of two minutes of overload included


@pytest.mark.behaviour(
    "without load replicas go to the minimum and none is added",
    report="llm-d/llm-d-autoscaling#380: a replica more at each look without load",
)
def test_without_traffic_replicas_reach_the_minimum() -> None:
    plant = FleetPlant(
        policy=auto(), step_time=A100_8B, rate=lambda t: 8.0 if t < 30 else 0.0, replicas=4
    )
    plant.run(400)
    assert plant.replicas == 1
    assert plant.ticks[-1].data is DataClass.FRESH
    assert plant.decisions[-1].reason is Reason.NO_TRAFFIC


@pytest.mark.behaviour(
    "metrics that are not there are no zeros",
    report="llm-d/llm-d#2492: a series that did not exist read as nothing waiting",
)
@pytest.mark.parametrize(
    ("outage_s", "reason"), [(120, Reason.DATA_STALE), (400, Reason.DATA_ABSENT)]
)
def test_an_outage_of_metrics_changes_nothing(outage_s: int, reason: Reason) -> None:
    """At its start the load is low and the down window over: data, not calm, is missing."""
    plant = FleetPlant(
        policy=auto(down_window_s=40.0),
        step_time=A100_8B,
        rate=lambda t: 6.0 if t < 60 else 0.5,
        replicas=4,
        sees=lambda t: t < 60,
    )
    plant.run(60)
    before = (plant.replicas, plant.budget)
    plant.run(20)
    plant.run(outage_s)
    assert (plant.replicas, plant.budget) == before
    assert plant.decisions[-1].reason is reason
    assert plant.moves(75.0) == []


@pytest.mark.parametrize("lost", ["all", "half"])
def test_after_an_outage_nothing_goes_before_the_down_window_is_over(lost: str) -> None:
    """Constant load: whatever is missing right after the outage is missing data."""
    pods = {"pod-1", "pod-2"} if lost == "half" else {f"pod-{n}" for n in range(1, 9)}
    plant = FleetPlant(
        policy=auto(batch_max=1024, down_window_s=60.0),
        step_time=A100_8B,
        rate=lambda _: 20.0,
        shape=Shape(prompt=(200, 1500), output=(50, 250)),
        replicas=4,
        dark=lambda t: pods if 150.0 <= t < 390.0 else set(),
    )
    plant.run(150)
    before = plant.replicas
    plant.run(240 + 120)
    assert not [d for d in plant.moves(150.0) if d.action is Action.SCALE_IN]
    assert plant.replicas >= before


def test_moves_are_few_under_noise() -> None:
    """Sparse, very uneven requests: nearly everything a measurement says is chance."""
    plant = FleetPlant(
        policy=auto(batch_max=1024),
        step_time=A100_8B,
        rate=lambda _: 0.3,
        shape=Shape(prompt=(10, 3000), output=(1, 400)),
        replicas=1,
    )
    plant.run(900)
    assert len(plant.moves(60.0)) <= 3


def test_a_new_operator_decides_the_same() -> None:
    """Everything needed is in the memory that the status keeps."""
    one, other = simulated_fleet(), simulated_fleet()
    one.run(150)
    other.run(75)
    assert len(dump_memory(other.memory)) > 5
    other.run(75)
    assert [replace(d, inputs={}) for d in one.decisions] == [
        replace(d, inputs={}) for d in other.decisions
    ]
    assert one.history == other.history
