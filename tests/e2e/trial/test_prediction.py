"""The prediction: the operator's own reading of the spec, and the control law it ships."""

from __future__ import annotations

import random

from e2e.load.plan import PlannedRequest
from e2e.trial import part, prediction
from e2e.trial.load import SHORT as LOADS
from e2e.trial.load import plan_of
from paceline_operator.simulator.fleet.fleet_config import RoutingKind
from paceline_operator.simulator.profiles import find_profile

SHORT = LOADS.direct


def test_an_engine_is_made_as_the_spec_says() -> None:
    spec = prediction.read_spec(part.FLEET)
    found = prediction.fleet(spec, 13.0)
    config = found.engine
    profile = find_profile("llama-3-70b-a100-tp4")
    assert config.law == profile.law
    assert config.kv_capacity_tokens <= profile.kv_capacity_tokens
    assert (config.max_num_batched_tokens, config.initial_batched_tokens) == (1024, 128)
    assert (config.max_num_seqs, config.max_model_len) == (16, 4096)
    assert config.queue_limits_s == ((2.0,), ())
    assert (found.initial_replicas, found.cold_start_s, found.drain_s) == (2, 13.0, 60.0)
    assert found.routing.kind is RoutingKind.LEAST_CONNECTIONS


def test_the_same_load_gives_the_same_figures_and_scales_out() -> None:
    spec = prediction.read_spec(part.FLEET)
    planned = plan_of(SHORT).requests
    first, second = (
        prediction.predict(spec, planned, cold_start_s=13.0, idle_s=20.0, until_s=SHORT.judged_s)
        for _ in range(2)
    )
    assert first == second
    assert first.goodput.total == sum(r.offset_s < SHORT.judged_s for r in planned)
    assert first.replicas_least == 2 < first.replicas_most


def test_what_a_fleet_costs_before_the_load_is_not_counted() -> None:
    spec = prediction.read_spec(part.FLEET)
    chance = random.Random(1)
    found = [
        prediction.predict(spec, calm(chance), cold_start_s=13.0, idle_s=idle_s, until_s=120.0)
        for idle_s in (0.0, 45.0)
    ]
    assert [each.replica_hours * 3600 for each in found] == [2 * 120.0] * 2
    assert [each.goodput.total for each in found] == [60, 60]


def test_a_fleet_without_pressure_keeps_its_least_replicas() -> None:
    spec = prediction.read_spec(part.FLEET)
    planned = calm(random.Random(1))
    figures = prediction.predict(spec, planned, cold_start_s=13.0, idle_s=20.0, until_s=120.0)
    assert figures.goodput.percent == 100.0
    assert figures.replica_hours * 3600 == 2 * 120.0


def calm(chance: random.Random) -> list[PlannedRequest]:
    return [
        PlannedRequest(
            number=number, offset_s=2.0 * number + chance.random(), phase="calm", kind="chat",
            prompt_tokens=800, max_tokens=20, streamed=True,
        )
        for number in range(60)
    ]  # fmt: skip
