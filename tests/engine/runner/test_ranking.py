"""The order of tokens by logit."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_engine.runner.ranking import largest, rank

WIDTH = 40
ROWS = st.lists(
    st.lists(st.integers(-5, 5) | st.just(-math.inf), min_size=WIDTH, max_size=WIDTH),
    min_size=1,
    max_size=4,
)


@settings(deadline=None)
@given(ROWS, st.integers(1, WIDTH))
def test_larger_comes_first_and_of_equals_the_lower_id(rows: list[list[float]], count: int) -> None:
    values, ids = largest(torch.tensor(rows), count)
    for row, row_values, row_ids in zip(rows, values.tolist(), ids.tolist(), strict=True):
        expected = sorted(range(WIDTH), key=lambda i: (-row[i], i))[:count]
        assert row_ids == expected
        assert row_values == [row[i] for i in expected]
        assert [rank(torch.tensor(row), i, row[i]) for i in expected] == list(range(1, count + 1))


def test_rows_without_equals_are_in_order_too() -> None:
    rows = torch.randn(3, 5000, generator=torch.Generator().manual_seed(1))
    values, ids = largest(rows, 700)
    expected = rows.sort(dim=1, descending=True, stable=True)
    torch.testing.assert_close(ids, expected.indices[:, :700])
    torch.testing.assert_close(values, expected.values[:, :700])


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_row_with_nan_harms_no_other(count: int) -> None:
    rows = torch.tensor([[1.0, 1.0, math.nan], [2.0, 5.0, 2.0], [math.nan] * 3])
    _, ids = largest(rows, count)
    assert ids[1].tolist() == [1, 0, 2][:count]


def test_a_token_outside_the_row_still_has_a_place() -> None:
    assert rank(torch.tensor([3.0, 1.0, 2.0]), 7, 2.0) == 3
