from __future__ import annotations

import pytest

from paceline_engine.server.liveness import silence_limit_s


@pytest.mark.parametrize(
    ("longest_step_s", "busy", "limit_s"),
    [(0.0, False, 10), (0.0, True, 10), (0.5, True, 10), (8.0, True, 24), (8.0, False, 10)],
)
def test_limit(longest_step_s: float, busy: bool, limit_s: float) -> None:
    assert silence_limit_s(longest_step_s, busy=busy) == limit_s
