from __future__ import annotations

from dataclasses import replace

import pytest

from paceline_operator.api.v1alpha1 import Tier
from paceline_operator.simulator.what_if.fleet import fleet_config
from paceline_operator.simulator.what_if.run_notes import (
    infeasible,
    never_served,
    without_samples,
)
from tests.operator.simulator.what_if.build import ITL, TTFT, facts, figures, spec


def test_nothing_is_said_of_what_has_samples() -> None:
    runs = figures(attained=(0.5, None)), figures(attained=(0.5, 0.9))
    assert without_samples((TTFT, ITL), runs) == ()


def test_it_is_said_why_there_are_no_samples() -> None:
    batch = replace(TTFT, tier=Tier.BATCH)
    run = figures(attained=(None, None), offered=(0, 1234))
    assert without_samples((batch, ITL), (run, run)) == (
        "No samples of first-token: no request of the batch tier was played.",
        "No samples of cadence: 1,234 requests of the interactive tier came, and none was served "
        "so far that it could be measured.",
    )


@pytest.mark.parametrize(
    ("max_model_len", "limit"),
    [
        (4096, "4,096 tokens of engine.maxModelLen; raise that."),
        (
            None,
            "100,000 tokens that a replica's KV cache holds; raise engine.kvCache.memory, or pass "
            "what it will hold as --kv-tokens.",
        ),
    ],
)
def test_requests_that_are_too_long_are_named_with_the_limit(
    max_model_len: int | None, limit: str
) -> None:
    device = {"type": "Simulated", "profile": "llama-3-8b-a100"}
    engine = fleet_config(spec(engine={"device": device, "maxModelLen": max_model_len}), facts())
    assert never_served(engine.engine, (figures(never_served=12), figures(never_served=14))) == (
        "13 of 1,000 requests can never be served and count as refused: a prompt has to be shorter "
        f"than the {limit}",
    )
    assert never_served(engine.engine, (figures(),)) == ()


def test_what_cannot_be_met_is_said_with_its_share_of_the_time_and_the_arithmetic() -> None:
    runs = (
        figures(infeasible_share=0.2, infeasible_message="maxReplicas is 4."),
        figures(infeasible_share=0.4, infeasible_message="One sequence needs 53 ms."),
    )
    assert infeasible(runs) == (
        "SLOFeasible=False for 30 % of the time: One sequence needs 53 ms.",
    )


def test_a_moment_of_it_is_not_worth_a_note() -> None:
    assert infeasible((figures(),)) == ()
    assert infeasible((figures(infeasible_share=0.004, infeasible_message="So."),)) == ()
