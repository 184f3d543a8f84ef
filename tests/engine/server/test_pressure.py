from __future__ import annotations

import pytest

from paceline_engine.server.pressure import Pressure


def test_only_the_time_without_room_counts() -> None:
    now_s = 5.0
    pressure = Pressure(lambda: now_s)
    pressure.end()
    assert pressure.seconds == 0
    now_s = 7.0
    pressure.begin()
    now_s = 8.0
    pressure.begin()
    now_s = 10.0
    assert pressure.seconds == pytest.approx(3)
    pressure.end()
    now_s = 20.0
    pressure.end()
    assert pressure.seconds == pytest.approx(3)
    pressure.begin()
    now_s = 20.5
    assert pressure.seconds == pytest.approx(3.5)
