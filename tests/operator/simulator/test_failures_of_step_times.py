"""Failure modes of the step time that engines keep; numbers are those of docs/failure-modes.md."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline_operator.api.v1alpha1 import Mode
from paceline_operator.autopilot.vocabulary.decision import Knob, Reason
from paceline_operator.simulator.law import StepLaw
from paceline_operator.simulator.loads.rates import Constant
from tests.operator.simulator.scenario import SMALL, Run, Service, chat, lengths, play

CPU = StepLaw(base_ms=12.0, per_prefill_token_ms=0.22, per_decode_row_ms=4.0, per_kv_token_ms=0.001)
FULL_LOAD_RPS = 4.4
"""What one such replica carries with steps of 240 ms."""
SERVICE = Service(
    law=CPU, profile=SMALL, ttft_ms=1500, itl_ms=250, ceiling=1024, max_num_seqs=64,
    replicas=1, most=4, cold_start_s=12.0,
)  # fmt: skip
KEPT_MS, SMALLEST = 0.9, 80


def loaded(service: Service, rps: float) -> Run:
    return play(service, chat(Constant(rps=rps, duration_s=900.0), lengths(300, 40, most=900)))


@pytest.mark.parametrize("rps", [0.7, 1.2])
def test_a_step_time_that_nobody_moves(rps: float) -> None:
    """Once a hopeless ITL target had left it there, what it costs was taken for a wrong model."""
    kept = {"step_time_target_ms": KEPT_MS}
    modes = {"tuning_mode": Mode.RECOMMEND, "scaling_mode": Mode.RECOMMEND}
    run = loaded(replace(SERVICE, engine=kept, policy=modes), rps)
    late = run.moments(300.0)
    assert min(m.tick.memory.capacity_factor for m in late) > 0.7
    told = [d.inputs["capacityRps"] for m in late for d in m.decisions(Knob.REPLICAS)]
    assert all(isinstance(each, float) and 1.0 < each < 0.4 * FULL_LOAD_RPS for each in told)
    wished = [d for m in late for d in m.decisions(Knob.STEP_TIME)]
    assert wished[-1].guard is Reason.RECOMMEND_ONLY
    assert 0.9 * SERVICE.itl_ms <= (wished[-1].after or 0) <= 0.95 * SERVICE.itl_ms


def test_an_itl_target_that_decoding_alone_misses_is_not_chased() -> None:
    """Steps as short as the target asks for would leave a third of the capacity, and miss it."""
    run = loaded(replace(SERVICE, itl_ms=1, most=1), 2.4)
    last = run.moments()[-1]
    assert last.tick.feasibility is not None
    assert last.tick.feasibility.feasible is False
    assert "One sequence alone needs 16 ms per token" in last.tick.feasibility.message
    assert [move.after for move in run.moves(Knob.STEP_TIME)][-1] == 0
    assert len(run.moves(Knob.STEP_TIME)) <= 3
    assert set(run.budgets(200.0)) == {SMALLEST}
    found = [o.ttft_s for o in run.result.outcomes if o.arrival_s >= 200.0 and o.ttft_s is not None]
    in_time = sum(ttft_s <= SERVICE.ttft_ms / 1e3 for ttft_s in found)
    assert in_time >= 0.95 * len(found)
