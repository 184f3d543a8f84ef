from __future__ import annotations

import json
import random
from argparse import Namespace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from bench import fit_cpu_profile
from bench.fit_cpu_profile import Measured, read
from paceline_engine.message import LoopState, StepStats
from paceline_engine.server.loop_metrics import LoopCollector
from paceline_operator.autopilot.vocabulary.window import StepClass

STEPS = {StepClass.DECODE_ONLY: 60, StepClass.MIXED: 40}


def page() -> str:
    """An engine's metrics after steps of 20 ms, and 2 ms more for each prompt token."""
    state = LoopState(0, 0, 0, 0, 0, 0, 0, 0)
    loop = LoopCollector(
        "m", state=lambda: state, revision=lambda: 0, block_size=16, num_kv_blocks=100
    )
    draw = random.Random(1)
    for kind, count in STEPS.items():
        for _ in range(count):
            tokens = draw.randrange(10, 200) if kind is StepClass.MIXED else 0
            loop.steps.add(
                StepStats(
                    step_class=kind.value,
                    duration_s=0.02 + 0.002 * tokens,
                    prefill_tokens=tokens,
                    decode_rows=draw.randrange(1, 9),
                    resident_kv_tokens=draw.randrange(100, 9_000),
                    chunk_context=tokens * draw.randrange(200, 900),
                    at_budget=False,
                    preemptions=0,
                    sampled_tokens=1,
                )
            )
    registry = CollectorRegistry()
    registry.register(loop)
    return generate_latest(registry).decode()


def test_an_engines_metrics_are_read_and_fitted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    measured = read(page(), others=0.02)
    assert measured.kv_capacity_tokens == 1600
    assert {kind: measured.steps[kind].count for kind in STEPS} == STEPS

    def measure(_args: Namespace) -> Measured:
        return measured

    monkeypatch.setattr(fit_cpu_profile, "measure", measure)
    args = Namespace(model=Path("m.gguf"), threads=2, seconds=1.0, results=tmp_path)
    assert fit_cpu_profile.run(args).startswith("cpu-profile: ok ")
    (path,) = tmp_path.iterdir()
    found = json.loads(path.read_text())
    assert found["law"]["base_ms"] == pytest.approx(20, rel=0.05)
    assert found["law"]["per_prefill_token_ms"] == pytest.approx(2, rel=0.05)
    assert found["moments"]["mixed"]["n"] == 40
