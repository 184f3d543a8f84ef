"""Sums and cross products of the step-time law's variables, per step class. Pure.

The operator solves exact least squares from differences of these sums, so they are kept
in plain floats and never rounded.
"""

from __future__ import annotations

from itertools import combinations_with_replacement

from paceline_engine.server.metric_names import MOMENT_TERMS, STEP_CLASSES

Sample = tuple[float, float, float, float, float]
"""Prefill tokens, decode rows, resident KV tokens, chunk x context, seconds."""


class Moments:
    """Moment sums since the start."""

    def __init__(self) -> None:
        self._sums = {name: [0.0] * len(MOMENT_TERMS) for name in STEP_CLASSES}

    def add(self, step_class: str, sample: Sample) -> None:
        """Adds one step.

        Raises:
            KeyError: Unknown class.
        """
        sums = self._sums[step_class]
        products = (a * b for a, b in combinations_with_replacement(sample, 2))
        for index, value in enumerate((1.0, *sample, *products)):
            sums[index] += value

    def items(self) -> list[tuple[str, str, float]]:
        """(class, term, sum) of every series."""
        return [
            (name, term, value)
            for name, sums in self._sums.items()
            for term, value in zip(MOMENT_TERMS, sums, strict=True)
        ]
