"""What of the operator's cost misses its bar."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from bench.operator_cost.__main__ import RESTS, Phase, _rest, shortfalls

MADE = Phase(
    name="made",
    seconds=90.0,
    passes=1000,
    pass_p95_s=0.2,
    pass_cpu_ms=4.0,
    busy=0.6,
    interval_s=5.0,
    period_p95_s=6.0,
    waited=0.01,
    memory_mb=200.0,
    moves=500,
    status_writes=900,
    other_writes={"create Secret": 500},
    most_writes_per_move=29.0,
    writes_without_move=0,
    most_status_writes=3,
)
HELD = replace(MADE, name="held", seconds=120.0, moves=0, other_writes={}, most_writes_per_move=0.0)
MOVED = replace(
    HELD, name="moved", seconds=60.0, moves=50, other_writes={"scale": 50}, most_writes_per_move=3.0
)


def test_a_good_run_misses_nothing() -> None:
    assert shortfalls([MADE, HELD, MOVED]) == []


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ({"moves": 1}, "held: 1 moves under constant load"),
        (
            {"moves": 1, "other_writes": {"ConfigMap": 1, "event": 1}},
            "held: 1 moves under constant load; held: 2 writes beside status",
        ),
        (
            {"other_writes": {"event": 1}, "writes_without_move": 1},
            "held: 1 writes beside status",
        ),
        ({"most_status_writes": 4}, "held: 4 status writes of one object"),
        ({"pass_p95_s": 2.1}, "held: p95 of a pass 2.10 s"),
        ({"interval_s": 16.0}, "held: interval 16.0 s"),
    ],
)
def test_a_fleet_at_rest_moves_and_writes_nothing(held: dict[str, Any], said: str) -> None:
    assert "; ".join(shortfalls([MADE, replace(HELD, **held), MOVED])) == said


@pytest.mark.parametrize(
    ("moved", "said"),
    [
        ({"moves": 0}, "0 moves of 3.0 writes at most"),
        ({"most_writes_per_move": 4.5}, "50 moves of 4.5 writes at most"),
        ({"memory_mb": 401.0}, "401 MB"),
    ],
)
def test_moves_are_made_and_cost_little(moved: dict[str, Any], said: str) -> None:
    assert shortfalls([MADE, HELD, replace(MOVED, **moved)]) == [said]


@pytest.mark.parametrize(("restless_for", "looks"), [(0, 2), (3, 4), (99, 2 * RESTS)])
def test_what_holds_is_watched_once_all_are_at_rest(restless_for: int, looks: int) -> None:
    class Site:
        seen = 0

        def moves(self) -> dict[str, int]:
            self.seen += 1
            return {"fleet-000": min(self.seen, restless_for)}

    made: Any = Site()
    asyncio.run(_rest(made, 0.0))
    assert made.seen == looks
