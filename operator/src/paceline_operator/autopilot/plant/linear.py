"""Least squares of a few unknowns, without a numerics library."""

from __future__ import annotations

from collections.abc import Sequence

Matrix = Sequence[Sequence[float]]


def solve(matrix: Matrix, right: Sequence[float]) -> list[float]:
    """Solution of `matrix x = right` by elimination with pivots.

    Raises:
        ZeroDivisionError: The matrix is singular.
    """
    size = len(right)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for column in range(size):
        pivot = max(range(column, size), key=lambda r: abs(rows[r][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        head = rows[column]
        for row in rows[column + 1 :]:
            factor = row[column] / head[column]
            for place in range(column, size + 1):
                row[place] -= factor * head[place]
    return _back_substitute(rows, size)


def _back_substitute(rows: list[list[float]], size: int) -> list[float]:
    found = [0.0] * size
    for place in reversed(range(size)):
        known = sum(rows[place][i] * found[i] for i in range(place + 1, size))
        found[place] = (rows[place][size] - known) / rows[place][place]
    return found


def solve_non_negative(matrix: Matrix, right: Sequence[float]) -> list[float]:
    """The same with no unknown below zero.

    Unknowns that come out negative are fixed at zero, the worst first, and the others are
    solved again: not always the exact constrained optimum, but close and always feasible.
    """
    free = list(range(len(right)))
    while free:
        part = solve([[matrix[i][j] for j in free] for i in free], [right[i] for i in free])
        worst = min(range(len(free)), key=part.__getitem__)
        if part[worst] >= 0.0:
            found = dict(zip(free, part, strict=True))
            return [found.get(i, 0.0) for i in range(len(right))]
        del free[worst]
    return [0.0] * len(right)


def quadratic(matrix: Matrix, vector: Sequence[float]) -> float:
    """`vector' matrix vector`."""
    return sum(
        a * cell * b
        for a, row in zip(vector, matrix, strict=True)
        for cell, b in zip(row, vector, strict=True)
    )


def dot(first: Sequence[float], second: Sequence[float]) -> float:
    """Inner product."""
    return sum(a * b for a, b in zip(first, second, strict=True))
