from __future__ import annotations

import pytest

from paceline_operator.api.v1alpha1 import InferenceServiceSpec, Mode, SloMetric
from paceline_operator.autopilot.vocabulary.policy import (
    Policy,
    budget_floor,
    initial_tunables,
    policy_from_spec,
)


def read(**spec: object) -> Policy:
    return policy_from_spec(InferenceServiceSpec.model_validate(spec))


@pytest.mark.parametrize(
    ("batch", "initial"), [({"max": 1024}, 1024), ({"max": 1024, "initial": 256}, 256), ({}, 2048)]
)
def test_the_initial_budget_is_the_ceiling_where_absent(
    batch: dict[str, int], initial: int
) -> None:
    assert read(engine={"batchTokens": batch}).batch_initial == initial


def test_the_initial_budget_respects_the_floor() -> None:
    given = read(engine={"batchTokens": {"max": 1024, "initial": 32}, "maxNumSeqs": 64})
    assert initial_tunables(given).max_num_batched_tokens == 80


@pytest.mark.parametrize(
    ("seqs", "step", "floor"), [(1, 16, 16), (15, 16, 16), (16, 16, 32), (127, 128, 128)]
)
def test_floor(seqs: int, step: int, floor: int) -> None:
    assert budget_floor(seqs, step) == floor


@pytest.mark.parametrize(
    ("scaling", "mode"), [({}, Mode.RECOMMEND), ({"maxReplicas": 3}, Mode.AUTO)]
)
def test_scaling_is_autonomous_where_a_maximum_is_set(scaling: dict[str, int], mode: Mode) -> None:
    assert read(scaling=scaling).scaling_mode is mode


def test_the_loops_act_on_interactive_objectives_alone() -> None:
    slos = [
        {"name": "nightly", "metric": "TTFT", "targetMs": 60_000, "tier": "batch"},
        {"name": "chat", "metric": "TTFT", "targetMs": 500},
    ]
    given = read(slos=slos)
    assert [o.name for o in given.objectives] == ["nightly", "chat"]
    assert (
        [o.name for o in given.steering]
        == ["chat"]
        == [o.name for o in given.of_metric(SloMetric.TTFT)]
    )


def test_objectives_keep_their_order() -> None:
    slos = [
        {"name": "b", "metric": "ITL", "targetMs": 50},
        {"name": "a", "metric": "TTFT", "targetMs": 500, "percentile": 90},
    ]
    first, second = read(slos=slos).objectives
    assert (first.name, second.name, second.share) == ("b", "a", 0.9)
