"""Fleets whose pods are not all alike: one that is slow, one that tries a budget."""

from __future__ import annotations

from typing import Any

from paceline_operator.api.v1alpha1 import Mode
from paceline_operator.autopilot.vocabulary.decision import Knob, Reason
from tests.operator.autopilot.build import auto
from tests.support.fleet_plant import A100_70B, FleetPlant, Shape


def fleet(rate: float, replicas: int, **more: Any) -> FleetPlant:
    given = auto(
        3000, 120, tuning_mode=Mode.AUTO, scaling_mode=Mode.OFF, replicas=replicas,
        batch_max=2048, max_num_seqs=96, **more,
    )  # fmt: skip
    return FleetPlant(
        policy=given,
        step_time=A100_70B,
        rate=lambda _: rate * replicas,
        shape=Shape(prompt=(400, 1600), output=(60, 160)),
        replicas=replicas,
        seed=3,
    )


def slow(prefill: float, rows: float, kv: float, context: float) -> float:
    return 2.0 * A100_70B(prefill, rows, kv, context)


def notices(plant: FleetPlant) -> list[tuple[Reason, float]]:
    return [
        (notice.reason, tick.memory.learned_until_s - 1000.0)
        for tick in plant.ticks
        for notice in tick.notices
    ]


def test_a_slow_pod_is_named_and_drags_nobody_down() -> None:
    plant = fleet(1.0, 3)
    plant.run(180)
    before = plant.budget
    plant.pods[1].engine.step_time = slow
    plant.run(180)
    (found,) = notices(plant)
    assert found[0] is Reason.POD_SLOW
    assert 30 <= found[1] - 180 <= 90
    estimate = plant.ticks[-1].estimate
    assert estimate is not None
    assert list(estimate.slow_pods) == ["pod-2"]
    assert 1.6 < estimate.slow_pods["pod-2"] < 2.4
    settled = [budget for at_s, budget, _ in plant.history if at_s > 300]
    assert min(settled) >= 0.7 * before, (before, settled)
    plant.pods[1].engine.step_time = A100_70B
    plant.run(120)
    assert notices(plant)[-1][0] is Reason.POD_RECOVERED


def test_a_raise_beyond_what_was_seen_begins_on_one_pod() -> None:
    plant = fleet(3.2, 2, batch_initial=160)
    plant.run(240)
    reasons = [d.reason for d in plant.moves() if d.knob is Knob.BUDGET]
    assert Reason.CANARY_HELD in reasons
    assert plant.budget > 300, [(d.time_s, d.message) for d in plant.moves()]
