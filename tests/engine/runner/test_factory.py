"""The right runner for a device, and one clear line where there is none."""

from __future__ import annotations

import pytest

from paceline_engine.config import Device
from paceline_engine.runner.factory import RunnerLoadError, create_runner
from paceline_engine.runner.simulated import SimulatedRunner
from tests.support.engine_config import engine_config
from tests.support.fake_clock import FakeClock


def test_the_simulated_device_takes_its_load_time() -> None:
    clock = FakeClock(start_s=10.0)
    runner = create_runner(engine_config(load_seconds=12.5), clock)
    assert isinstance(runner, SimulatedRunner)
    assert clock.now() == 22.5


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"device": Device.CUDA}, "'cuda' has no runner here: use cpu or simulated"),
        ({"device": Device.AUTO}, "'auto' has no runner here"),
        ({"step_time_law": None}, "needs a step-time law"),
        ({"vocab_size": 1}, "no token is left"),
    ],
)
def test_what_cannot_run_is_refused_in_one_line(changes: dict[str, object], said: str) -> None:
    with pytest.raises(RunnerLoadError, match=said) as refused:
        create_runner(engine_config(**changes), FakeClock())
    assert "\n" not in str(refused.value)
