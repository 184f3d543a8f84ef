"""Least squares with no negative coefficient, from normal equations. Small and dense."""

from __future__ import annotations

from collections.abc import Sequence


def solve_positive(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """Coefficients x >= 0 of the normal equations `matrix` x = `right`.

    While the solution has a negative coefficient, the most negative one is held at zero and the
    rest is solved anew.

    Args:
        matrix: Symmetric and positive definite.
        right: As long as the matrix.
    """
    active = list(range(len(right)))
    found = [0.0] * len(right)
    while active:
        part = _solve([[matrix[i][j] for j in active] for i in active], [right[i] for i in active])
        if (least := min(part)) >= 0:
            for index, value in zip(active, part, strict=True):
                found[index] = value
            return found
        del active[part.index(least)]
    return found


def _solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Cholesky: the matrix becomes its factor, `right` the solution."""
    size = len(right)
    for column in range(size):
        row = matrix[column]
        pivot = (row[column] - sum(value * value for value in row[:column])) ** 0.5
        row[column] = pivot
        for below in matrix[column + 1 :]:
            known = sum(a * b for a, b in zip(below[:column], row, strict=False))
            below[column] = (below[column] - known) / pivot
    for index, row in enumerate(matrix):
        known = sum(a * b for a, b in zip(row[:index], right, strict=False))
        right[index] = (right[index] - known) / row[index]
    for index in reversed(range(size)):
        known = sum(matrix[later][index] * right[later] for later in range(index + 1, size))
        right[index] = (right[index] - known) / matrix[index][index]
    return right
