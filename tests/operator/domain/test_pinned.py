"""What is remembered of a fleet's start, and what is made of a status that says something else."""

from __future__ import annotations

from typing import Any

import pytest

from paceline_operator.api.choice import RolloutStrategy
from paceline_operator.domain.pinned import KEY, Pinned, dump, load


@pytest.mark.parametrize(
    "known",
    [
        Pinned(),
        Pinned(image="engine:1", startup="abc", strategy=RolloutStrategy.REPLACE),
        Pinned(image="engine:1"),
    ],
)
def test_it_is_read_as_it_was_written(known: Pinned) -> None:
    assert load({"memory": {KEY: dump(known)}}) == known


@pytest.mark.parametrize(
    "status",
    [
        None,
        [],
        {"memory": None},
        {"memory": ["x"]},
        {"memory": {KEY: "engine:1"}},
        {"memory": {KEY: {"image": 7, "startup": {"a": 1}, "strategy": ["Replace"]}}},
        {"memory": {KEY: {"image": "", "strategy": "Sometimes"}}},
    ],
)
def test_what_cannot_be_read_is_not_pinned(status: Any) -> None:
    assert load(status) == Pinned()
