"""An engine that has work and does none ends with a reason."""

from __future__ import annotations

import pytest

from paceline_engine.engine.watchdog import STUCK_S, EngineStuckError, Watchdog


@pytest.mark.behaviour(
    "requests that wait while nothing runs end the engine with a reason, never a silent stall",
    report="vllm #53130: nothing was admitted again while health stayed green",
)
def test_empty_steps_are_borne_for_a_while_only() -> None:
    watchdog = Watchdog()
    watchdog.idled(3, 0, 100.0)
    watchdog.idled(3, 0, 100.0 + STUCK_S - 0.1)
    with pytest.raises(EngineStuckError, match="3 requests wait and 0 run"):
        watchdog.idled(3, 0, 100.0 + STUCK_S)


def test_a_step_that_runs_starts_the_count_anew() -> None:
    watchdog = Watchdog()
    watchdog.idled(1, 0, 100.0)
    watchdog.ran()
    watchdog.idled(1, 0, 100.0 + 2 * STUCK_S)
