"""A small engine configuration that tests vary."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from paceline_engine.config import Device, EngineConfig, StepTimeLaw

FAST_LAW = StepTimeLaw(base_ms=0.2, per_token_ms=0.001)
BASE = EngineConfig(
    model_path=None,
    device=Device.SIMULATED,
    max_model_len=256,
    max_num_batched_tokens=512,
    max_num_seqs=16,
    initial_batched_tokens=512,
    initial_running_seqs=16,
    num_kv_blocks=64,
    vocab_size=300,
    eos_token_ids=(0,),
    block_size=16,
    step_time_law=FAST_LAW,
)


def engine_config(**changes: Any) -> EngineConfig:
    """`BASE` with changes; start values follow a ceiling unless they are given too."""
    for start, ceiling in (
        ("initial_batched_tokens", "max_num_batched_tokens"),
        ("initial_running_seqs", "max_num_seqs"),
    ):
        if ceiling in changes:
            changes.setdefault(start, changes[ceiling])
    return replace(BASE, **changes)
