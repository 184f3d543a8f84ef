from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.autopilot.plant.linear import dot, quadratic, solve, solve_non_negative

numbers = st.floats(-10, 10)


@given(st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=3, max_size=6), st.data())
def test_normal_equations_are_solved(rows: list[list[float]], data: st.DataObject) -> None:
    """Any well-posed system built from known unknowns gives them back."""
    known = data.draw(st.lists(numbers, min_size=3, max_size=3))
    matrix = [
        [sum(r[i] * r[j] for r in rows) + (1.0 if i == j else 0.0) for j in range(3)]
        for i in range(3)
    ]
    right = [dot(row, known) for row in matrix]
    assert solve(matrix, right) == pytest.approx(known, abs=1e-5)


@given(st.lists(numbers, min_size=3, max_size=3))
def test_no_unknown_is_negative(right: list[float]) -> None:
    matrix = [[2.0, 0.5, 0.1], [0.5, 2.0, 0.2], [0.1, 0.2, 2.0]]
    assert min(solve_non_negative(matrix, right)) >= 0.0


def test_a_negative_unknown_is_left_out() -> None:
    assert solve_non_negative([[1.0, 0.0], [0.0, 1.0]], [3.0, -2.0]) == [3.0, 0.0]


def test_quadratic_form() -> None:
    assert quadratic([[1.0, 2.0], [2.0, 3.0]], [1.0, 1.0]) == 8.0
