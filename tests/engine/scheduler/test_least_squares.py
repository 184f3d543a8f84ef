"""Solutions of small normal equations, compared with numpy's where nothing is negative."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_engine.scheduler.least_squares import solve_positive


def normal(rows: list[list[float]], values: list[float]) -> tuple[list[list[float]], list[float]]:
    design, target = np.array(rows), np.array(values)
    return (design.T @ design).tolist(), (design.T @ target).tolist()


def test_a_line() -> None:
    rows = [[1.0, float(x)] for x in range(10)]
    matrix, right = normal(rows, [3 + 2 * x for x in range(10)])
    assert solve_positive(matrix, right) == pytest.approx([3, 2])


def test_what_would_be_negative_is_zero() -> None:
    rows = [[1.0, float(x)] for x in range(10)]
    matrix, right = normal(rows, [100.0 - x for x in range(10)])
    assert solve_positive(matrix, right) == [pytest.approx(95.5), 0.0]


def test_nothing_may_be_left() -> None:
    assert solve_positive([[1.0]], [-1.0]) == [0.0]


@settings(deadline=None)
@given(
    truth=st.lists(st.floats(0.1, 10), min_size=1, max_size=5),
    seed=st.integers(0, 1000),
)
def test_the_truth_is_found(truth: list[float], seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows = generator.uniform(0, 2, (40, len(truth)))
    matrix, right = normal(rows.tolist(), (rows @ np.array(truth)).tolist())
    assert solve_positive(matrix, right) == pytest.approx(truth, rel=1e-6)
