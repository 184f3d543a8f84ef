from __future__ import annotations

import os
import subprocess
import sys

import pytest

from paceline_engine.memory import MIB, LimitSource, MemoryLimit, MemoryPlan, PlannedMemory
from paceline_engine.server.memory_watch import MemoryWatch, resident_bytes
from paceline_engine.server.memory_wire import memory_response

PLAN = MemoryPlan(
    runtime_bytes=100 * MIB, weight_bytes=300 * MIB, block_bytes=MIB, num_kv_blocks=200
)


def limit(available: int) -> MemoryLimit:
    return MemoryLimit(
        source=LimitSource.CGROUP_V2, total_bytes=1000 * MIB, available_bytes=available * MIB
    )


def watch(available: int, server: int, engine: int) -> MemoryWatch:
    planned = PlannedMemory(plan=PLAN, limit=limit(900), usable_bytes=950 * MIB)
    sizes = {None: server * MIB, 7: engine * MIB}
    return MemoryWatch(planned, lambda: limit(available), lambda pid: sizes[pid])


@pytest.mark.parametrize(
    ("available", "server", "engine", "headroom"),
    [
        (900, 50, 0, 350),  # nothing loaded: 550 are still to come
        (500, 50, 400, 350),  # loaded: 150 of KV blocks are not touched yet
        (300, 50, 550, 300),  # all in use and more
        (100, 50, 400, -50),  # others took what was planned for KV blocks
    ],
)
def test_headroom_counts_what_is_still_to_be_taken(
    available: int, server: int, engine: int, headroom: int
) -> None:
    reading = watch(available, server, engine).read(7)
    assert reading.headroom_bytes == headroom * MIB
    assert (reading.server_bytes, reading.engine_bytes) == (server * MIB, engine * MIB)


def test_the_answer_has_the_whole_sum() -> None:
    seen = watch(500, 50, 400)
    answer = memory_response(seen, seen.read(7)).model_dump(by_alias=True)
    assert sum(answer["plan"].values()) == answer["plannedBytes"] == 600 * MIB
    assert answer["plan"]["kvCache"] == answer["kvBlocks"] * answer["kvBlockBytes"]
    assert answer["limit"] == {
        "source": "cgroup v2",
        "totalBytes": 1000 * MIB,
        "usableBytes": 950 * MIB,
    }
    assert answer["measured"] == {
        "serverBytes": 50 * MIB,
        "engineBytes": 400 * MIB,
        "availableBytes": 500 * MIB,
    }


def test_before_the_engine_starts_it_has_nothing() -> None:
    assert watch(900, 50, 0).read(None).engine_bytes == 0


def test_resident_memory_of_processes() -> None:
    assert MIB < resident_bytes() < 4096 * MIB
    assert resident_bytes(os.getpid()) == pytest.approx(resident_bytes(), rel=0.1)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert resident_bytes(ended.pid) == 0
