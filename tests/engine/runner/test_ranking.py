"""The order of tokens by logit."""

from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_engine.runner.ranking import best, largest, rank

ROWS = st.lists(st.integers(-5, 5) | st.just(-math.inf), min_size=1, max_size=40)


@settings(deadline=None)
@given(ROWS, st.integers(1, 50))
def test_larger_comes_first_and_of_equals_the_lower_id(row: list[float], count: int) -> None:
    logits = torch.tensor(row, dtype=torch.float32)
    expected = sorted(range(len(row)), key=lambda i: (-row[i], i))
    assert largest(logits, count).tolist() == expected[:count]
    assert best(logits) == expected[0]
    assert [rank(logits, i, row[i]) for i in expected] == list(range(1, len(row) + 1))


def test_wide_rows_are_in_order_too() -> None:
    row = torch.randn(50_000, generator=torch.Generator().manual_seed(1))
    expected = row.sort(descending=True, stable=True).indices.tolist()
    for count in (1, 20, 700):
        assert largest(row, count).tolist() == expected[:count]
    assert best(row) == expected[0]


def test_a_token_outside_the_row_still_has_a_place() -> None:
    assert rank(torch.tensor([3.0, 1.0, 2.0]), 7, 2.0) == 3
