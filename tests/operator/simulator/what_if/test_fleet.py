from __future__ import annotations

from typing import Any

import pytest

from paceline_operator.simulator.fleet.fleet_config import RoutingKind
from paceline_operator.simulator.what_if.fleet import fleet_config, left_out, steering_policy
from tests.operator.simulator.what_if.build import ITL, PROFILE, TTFT, facts, spec


def test_the_make_of_a_fleet_is_what_the_spec_says() -> None:
    given = spec(
        engine={
            "device": {"type": "Simulated", "profile": PROFILE},
            "batchTokens": {"max": 1024, "initial": 256},
            "maxNumSeqs": 100,
            "maxModelLen": 4096,
            "kvCache": {"blockSize": 32, "prefixCaching": False},
        },
        routing={"mode": "Service"},
        rollout={"drainSeconds": 60},
    )
    config = fleet_config(given, facts())
    engine = config.engine
    assert (engine.max_num_batched_tokens, engine.initial_batched_tokens) == (1024, 256)
    assert (engine.max_num_seqs, engine.initial_running_seqs) == (100, 100)
    assert (engine.block_size, engine.num_kv_blocks) == (32, 3125)
    assert (engine.max_model_len, engine.prefix_caching) == (4096, False)
    assert config.objectives == (TTFT, ITL)
    assert (config.cold_start_s, config.drain_s) == (60.0, 60.0)
    assert config.routing.kind is RoutingKind.RANDOM


@pytest.mark.parametrize(
    ("more", "running", "wanted"),
    [
        ({}, None, 1),
        ({}, 3, 3),
        ({}, 9, 4),
        ({"replicas": 2}, None, 2),
        ({"scaling": {"minReplicas": 3, "maxReplicas": 4}}, 1, 3),
        ({"scaling": {"mode": "Off"}, "replicas": 2}, 5, 2),
        ({"scaling": {}, "replicas": 2}, 5, 2),
    ],
)
def test_it_begins_with_what_runs_within_its_limits(
    more: dict[str, Any], running: int | None, wanted: int
) -> None:
    assert fleet_config(spec(**more), facts(), running).initial_replicas == wanted


def test_a_calendar_and_flags_are_not_played_and_that_is_said() -> None:
    window = {"name": "night", "start": "0 1 * * *", "durationSeconds": 3600}
    given = spec(
        engine={"device": {"type": "Simulated", "profile": PROFILE}, "args": ["--x=1"]},
        freezeWindows=[window],
    )
    policy = steering_policy(given, facts())
    assert not policy.freezes
    calendar, flags = left_out(given)
    assert calendar.startswith("Schedules and freeze windows are left out")
    assert flags == "Flags in engine.args are left out: --x=1."
    assert left_out(spec()) == ()


def test_the_autopilot_knows_the_cold_start_from_before() -> None:
    assert steering_policy(spec(), facts(77.0)).cold_start_prior_s == 77.0
