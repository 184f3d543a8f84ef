from __future__ import annotations

from typing import Any

import pytest

from paceline_operator.domain.compute import resources, threads
from tests.support.fleet import spec


@pytest.mark.parametrize("device", ["Auto", "CPU", "Simulated"])
def test_no_cpu_limit_of_ours(device: str) -> None:
    chosen = resources(spec(engine={"device": {"type": device}}).engine, None)
    assert "limits" not in chosen


def test_a_gpu_is_asked_for_where_the_device_is_one() -> None:
    chosen = resources(spec(engine={"device": {"type": "CUDA"}}).engine, None)
    assert chosen["limits"] == {"nvidia.com/gpu": "1"}


def test_what_the_user_writes_stands() -> None:
    wanted = {"requests": {"cpu": "700m"}, "limits": {"cpu": "2"}}
    assert resources(spec().engine, wanted) == wanted


@pytest.mark.parametrize(
    ("chosen", "count"),
    [
        ({"requests": {"cpu": "700m"}}, 1),
        ({"requests": {"cpu": "4"}}, 4),
        ({"requests": {"cpu": 2}}, 2),
        ({"requests": {"cpu": "2500m"}}, 2),
        ({"limits": {"cpu": "3"}}, 3),
        ({"limits": {"cpu": "8"}, "requests": {"cpu": "2"}}, 2),
        ({}, 1),
    ],
)
def test_threads(chosen: dict[str, Any], count: int) -> None:
    assert threads(chosen) == count
