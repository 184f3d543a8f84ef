from __future__ import annotations

import random

import pytest

from paceline_operator.simulator.loads.scaled import scaled
from paceline_operator.simulator.loads.superpose import Tape
from paceline_operator.simulator.request import Request

REQUESTS = [Request(float(second), 100, 10, (second,)) for second in range(2000)]
TAPE = Tape(play=lambda: iter(REQUESTS), span_s=2000.0)


def test_once_the_load_is_the_load() -> None:
    assert list(scaled(TAPE, 1, random.Random(1))) == REQUESTS


@pytest.mark.parametrize("factor", [0.3, 0.5, 1.2, 2, 2.5])
def test_the_load_some_times_over_lasts_as_long(factor: float) -> None:
    found = list(scaled(TAPE, factor, random.Random(1)))
    assert len(found) == pytest.approx(factor * 2000, rel=0.05)
    times = [request.arrival_s for request in found]
    assert times == sorted(times)
    assert times[-1] < 2000
    assert times[-1] > 1900


def test_copies_share_no_prefix() -> None:
    blocks = [request.prefix_blocks for request in scaled(TAPE, 2, random.Random(1))]
    assert len(set(blocks)) == len(blocks)
