"""Least squares with no negative coefficient, from normal equations. Small and dense.

Written in plain loops: an engine that keeps a step time solves this after every step.
"""

from __future__ import annotations

from collections.abc import Sequence


def solve_positive(matrix: Sequence[list[float]], right: Sequence[float]) -> list[float]:
    """Coefficients x >= 0 of the normal equations `matrix` x = `right`.

    While the solution has a negative coefficient, the most negative one is held at zero and the
    rest is solved anew.

    Args:
        matrix: Symmetric and positive definite; what is above the diagonal is not read.
        right: As long as the matrix.
    """
    active = list(range(len(right)))
    found = [0.0] * len(right)
    while active:
        part = [right[i] for i in active]
        _solve(_lower(matrix, active), part)
        if (least := min(part)) >= 0:
            for index, value in zip(active, part, strict=True):
                found[index] = value
            return found
        del active[part.index(least)]
    return found


def _lower(matrix: Sequence[list[float]], active: list[int]) -> list[list[float]]:
    """Rows and columns of those, down to the diagonal."""
    rows: list[list[float]] = []
    for index, i in enumerate(active):
        line = matrix[i]
        rows.append([line[j] for j in active[: index + 1]])
    return rows


def _solve(lower: list[list[float]], right: list[float]) -> None:
    """Cholesky: the triangle becomes its factor, `right` the solution."""
    _factorise(lower)
    size = len(right)
    for index in range(size):
        row, known = lower[index], 0.0
        for column in range(index):
            known += row[column] * right[column]
        right[index] = (right[index] - known) / row[index]
    for index in range(size - 1, -1, -1):
        known = 0.0
        for later in range(index + 1, size):
            known += lower[later][index] * right[later]
        right[index] = (right[index] - known) / lower[index][index]


def _factorise(lower: list[list[float]]) -> None:
    for size, row in enumerate(lower):
        for column in range(size):
            other, known = lower[column], 0.0
            for index in range(column):
                known += row[index] * other[index]
            row[column] = (row[column] - known) / other[column]
        known = 0.0
        for column in range(size):
            known += row[column] * row[column]
        row[size] = (row[size] - known) ** 0.5
