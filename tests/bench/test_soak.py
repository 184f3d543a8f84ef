"""Twenty minutes of mixed load on a virtual clock, with two floods: nothing may leak."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench.soak.run import EXPECTED, FLOOD
from bench.soak.watch import OBJECTS_A_CALL, Sample, leaks, memory_growth, objects_a_call

ROOT = Path(__file__).parents[2]
CLEAN = Sample(
    at_s=0.0, calls=0, rss_bytes=1000, objects=1000, tasks=1, timers=1, blocks_held=0, waiting=0,
    streams=0,
)  # fmt: skip


def samples(*objects: int, calls: int = 1000) -> list[Sample]:
    """One after each so many calls."""
    return [
        replace(CLEAN, objects=count, calls=calls * index) for index, count in enumerate(objects)
    ]


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.behaviour(
    "10,000 queued requests, 1,000 aborts and mixed load leak no block, task, timer or memory",
    report="sglang #6888, #11970, #10833, #7130: KV pool leak found only at idle",
)
def test_twenty_minutes_leak_nothing(tmp_path: Path) -> None:
    """In a process of its own: what other tests have loaded weighs nothing."""
    command = [sys.executable, "-m", "bench.soak", f"--results={tmp_path}"]
    ended = subprocess.run(
        [*command, "--minutes=20", "--seed=1", "--rate=2.5"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (file,) = tmp_path.iterdir()
    result = json.loads(file.read_text())
    statuses = {int(status): count for status, count in result["statuses"].items()}
    total = sum(statuses.values())
    assert result["problems"] == []
    assert total > 2 * FLOOD + 1500
    assert set(statuses) == EXPECTED - {429}
    assert statuses[200] > 0.9 * total - FLOOD // 5


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"tasks": 3}, "tasks"),
        ({"timers": 9}, "timers"),
        ({"blocks_held": 1}, "blocks_held"),
        ({"waiting": 1}, "waiting"),
        ({"streams": 1}, "streams"),
    ],
)
def test_what_is_left_over_is_named(changes: dict[str, int], word: str) -> None:
    looks = [CLEAN] * 8
    assert leaks(looks) == []
    assert word in " ".join(leaks(looks[:4] + [replace(CLEAN, **changes)] * 4))


@pytest.mark.parametrize("loaded", [50_000, 5_000_000])
@pytest.mark.parametrize("calls", [150, 4000])
def test_one_object_that_stays_for_each_call_is_told_whatever_else_is_loaded(
    loaded: int, calls: int
) -> None:
    leaking = samples(*(loaded + calls * index for index in range(20)), calls=calls)
    assert objects_a_call(leaking) == pytest.approx(1.0)
    assert "objects stay" in " ".join(leaks(leaking))
    steady = samples(*(loaded + index % 3 * calls // 10 for index in range(20)), calls=calls)
    assert leaks(steady) == []
    assert abs(objects_a_call(steady)) < OBJECTS_A_CALL


def test_memory_that_grows_is_told_and_warm_up_is_not() -> None:
    sizes = [100, 500, 1000, 1000, 1000, 1005, 1010, 1010]
    looks = [replace(CLEAN, rss_bytes=size) for size in sizes]
    assert memory_growth(looks) == pytest.approx(0.01)
    assert leaks(looks) == []
    grown = [replace(CLEAN, rss_bytes=1100)] * 4
    assert "memory grew" in " ".join(leaks(looks[:4] + grown))
