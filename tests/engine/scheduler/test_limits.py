"""Live knobs stay inside the ceilings and leave every running sequence its token."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_engine.config import Device
from paceline_engine.scheduler.limits import LiveLimits
from tests.support.engine_config import engine_config


def limits(**changes: object) -> LiveLimits:
    return LiveLimits(engine_config(**changes))


@pytest.mark.parametrize(
    ("requested", "in_force"),
    [(256, 256), (255, 240), (1, 16), (0, 16), (4096, 512), (512, 512)],
    ids=["on the ladder", "rounded down", "floor", "zero", "ceiling", "at the ceiling"],
)
def test_budget(requested: int, in_force: int) -> None:
    knobs = limits(max_num_batched_tokens=512, initial_running_seqs=8)
    knobs.apply(max_num_batched_tokens=requested)
    assert knobs.max_num_batched_tokens == in_force


def test_the_floor_follows_the_running_cap() -> None:
    knobs = limits(max_num_seqs=64, initial_running_seqs=8, initial_batched_tokens=16)
    assert knobs.max_num_batched_tokens == 16
    knobs.apply(max_num_running_seqs=40)
    assert knobs.max_num_batched_tokens == 48
    knobs.apply(max_num_running_seqs=8)
    assert knobs.max_num_batched_tokens == 16


def test_the_gpu_ladder_is_coarser() -> None:
    knobs = limits(device=Device.CUDA, initial_batched_tokens=500)
    assert knobs.max_num_batched_tokens == 384


@pytest.mark.parametrize(("requested", "in_force"), [(0, 1), (-3, 1), (5, 5), (9, 8)])
def test_running_cap(requested: int, in_force: int) -> None:
    knobs = limits(max_num_seqs=8)
    knobs.apply(max_num_running_seqs=requested)
    assert knobs.max_num_running_seqs == in_force


def test_none_leaves_a_knob_as_it_is() -> None:
    knobs = limits(initial_batched_tokens=128, initial_running_seqs=4)
    knobs.apply()
    assert (knobs.max_num_batched_tokens, knobs.max_num_running_seqs) == (128, 4)


def test_a_step_time_target_is_taken_back_with_0() -> None:
    knobs = limits(initial_step_time_target_ms=7.0)
    assert knobs.step_time_target_ms == 7.0
    knobs.apply(max_num_running_seqs=4)
    knobs.apply(step_time_target_ms=30.0)
    assert knobs.step_time_target_ms == 30.0
    knobs.apply(step_time_target_ms=0.0)
    assert knobs.step_time_target_ms == 0.0


def test_draining_down_keeps_a_token_for_each() -> None:
    knobs = limits(max_num_seqs=64, initial_running_seqs=64, initial_batched_tokens=96)
    knobs.apply(max_num_batched_tokens=16, max_num_running_seqs=4)
    assert knobs.max_num_batched_tokens == 16
    assert knobs.budget(running=40) == 48


@settings(deadline=None)
@given(
    ceiling=st.integers(2, 600),
    seqs=st.integers(1, 80),
    budget=st.integers(-10, 1000),
    cap=st.integers(-10, 200),
    running=st.integers(0, 80),
)
def test_bounds_hold_for_any_request(
    ceiling: int, seqs: int, budget: int, cap: int, running: int
) -> None:
    knobs = limits(max_num_batched_tokens=ceiling, max_num_seqs=seqs)
    most = min(seqs, ceiling - 1)
    running = min(running, most)
    knobs.apply(max_num_batched_tokens=budget, max_num_running_seqs=cap)
    assert 1 <= knobs.max_num_running_seqs <= most
    assert running < knobs.budget(running) <= ceiling
    assert knobs.max_num_running_seqs < knobs.max_num_batched_tokens <= ceiling
