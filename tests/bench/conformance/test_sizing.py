from __future__ import annotations

from dataclasses import replace

import pytest

from bench.conformance.load_case import Service
from bench.conformance.shape import Shape, Stretch
from bench.conformance.sizing import replica_rps, replicas
from paceline_operator.autopilot.plant.workload import Workload

CHAT = Workload(prompt_mean=1155, prompt_p50=928, prompt_p95=4083, prompt_cv2=0.92, output_mean=211)
A100 = Service(profile="llama-3-8b-a100", ttft_ms=500, itl_ms=50)


def test_an_a100_holds_a_few_chats_a_second() -> None:
    """3 to 4 by a simulation of the same law, lengths and targets that is none of ours."""
    assert 2.5 < replica_rps(A100, CHAT) < 5.0


@pytest.mark.parametrize(
    ("service", "workload"),
    [
        pytest.param(A100, replace(CHAT, prompt_mean=2310, prompt_p50=1856), id="longer-prompts"),
        pytest.param(A100, replace(CHAT, output_mean=2110), id="longer-answers"),
        pytest.param(replace(A100, itl_ms=35), CHAT, id="tighter-gaps"),
        pytest.param(replace(A100, ttft_ms=450), CHAT, id="tighter-first-token"),
    ],
)
def test_what_makes_a_replica_carry_less(service: Service, workload: Workload) -> None:
    assert replica_rps(service, workload) < 0.95 * replica_rps(A100, CHAT)


def test_hits_make_it_carry_more() -> None:
    assert replica_rps(A100, replace(CHAT, hit_rate=0.5)) > 1.3 * replica_rps(A100, CHAT)


def test_stretches_are_sized_by_what_they_carry() -> None:
    one = replica_rps(A100, CHAT)
    long = replace(CHAT, prompt_mean=2310.0, prompt_p50=1856.0)
    shape = Shape(
        requests=1, span_s=900.0, peak_rps=1.0, output_p95=1.0, workload=CHAT, grid_s=0.0,
        stretches=(
            Stretch(rps=2 * one, workload=CHAT),
            Stretch(rps=4 * one, workload=CHAT),
            Stretch(rps=6 * replica_rps(A100, long), workload=long),
        ),
    )  # fmt: skip
    assert replicas(A100, shape) == pytest.approx((4.0, 6.0))
