"""Twenty minutes of mixed load on a virtual clock, with two floods: nothing may leak."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest

from bench.soak.run import EXPECTED, FLOOD, soak
from bench.soak.watch import Sample, leaks, memory_growth

CLEAN = Sample(
    at_s=0.0, rss_bytes=1000, objects=1000, tasks=1, timers=1, blocks_held=0, waiting=0, streams=0
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.behaviour(
    "10,000 queued requests, 1,000 aborts and mixed load leak no block, task, timer or memory",
    report="sglang #6888, #11970, #10833, #7130: KV pool leak found only at idle",
)
def test_twenty_minutes_leak_nothing() -> None:
    gc.unfreeze()  # growth is a share of all objects, those of what was imported too
    result = soak(20 * 60, seed=1, rate_per_s=2.5, told=lambda _sample: None)
    assert result.problems == []
    assert result.statuses.total() > 2 * FLOOD + 1500
    assert set(result.statuses) == EXPECTED - {429}
    assert result.statuses[200] > 0.9 * result.statuses.total() - FLOOD // 5


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"tasks": 3}, "tasks"),
        ({"objects": 1200}, "objects"),
        ({"timers": 9}, "timers"),
        ({"blocks_held": 1}, "blocks_held"),
        ({"waiting": 1}, "waiting"),
        ({"streams": 1}, "streams"),
    ],
)
def test_what_is_left_over_is_named(changes: dict[str, int], word: str) -> None:
    samples = [CLEAN] * 8
    assert leaks(samples) == []
    assert word in " ".join(leaks(samples[:4] + [replace(CLEAN, **changes)] * 4))


def test_memory_that_grows_is_told_and_warm_up_is_not() -> None:
    sizes = [100, 500, 1000, 1000, 1000, 1005, 1010, 1010]
    samples = [replace(CLEAN, rss_bytes=size) for size in sizes]
    assert memory_growth(samples) == pytest.approx(0.01)
    assert leaks(samples) == []
    assert "memory grew" in " ".join(leaks([replace(s, rss_bytes=s.rss_bytes) for s in samples[:4]]
                                           + [replace(CLEAN, rss_bytes=1100)] * 4))  # fmt: skip
