"""What a measured step-time law is read from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.validation import measured_profile
from bench.validation.served_engine import ServedEngineError
from paceline_operator.simulator.profiles import find_profile

RESULT = measured_profile.ROOT / "bench/results/cpu-profile-2026-11-30-185856.json"


def test_a_result_becomes_the_profile_that_the_simulator_ships() -> None:
    found = measured_profile.read(json.loads(RESULT.read_text()))
    shipped = find_profile("smollm2-135m-cpu2")
    assert found.kv_capacity_tokens == shipped.kv_capacity_tokens
    assert found.step_noise.decode == pytest.approx(shipped.step_noise.decode, abs=5e-4)
    assert found.step_noise.prefill == pytest.approx(shipped.step_noise.prefill, abs=5e-4)
    load = (100, 8, 2000, 20_000)
    assert found.law.step_ms(*load) == pytest.approx(shipped.law.step_ms(*load), rel=5e-3)


def test_a_law_that_cannot_be_measured_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\necho first >&2; echo 'cpu-profile: void' >&2; exit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(measured_profile, "ENGINE_VENV", tmp_path)
    with pytest.raises(ServedEngineError, match=r"^the step-time law: cpu-profile: void$"):
        measured_profile.measure(tmp_path / "model")
