from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_engine.server.metric_names import MOMENT_TERMS, MOMENT_VARIABLES, STEP_CLASSES
from paceline_engine.server.moments import Moments

value = st.floats(0, 1e4)
samples = st.lists(st.tuples(value, value, value, value, value), min_size=1, max_size=20)


@given(samples, st.sampled_from(STEP_CLASSES))
def test_terms_are_the_sums_and_cross_products(
    steps: list[tuple[float, float, float, float, float]], step_class: str
) -> None:
    moments = Moments()
    for step in steps:
        moments.add(step_class, step)
    table = np.array(steps)
    gram = table.T @ table
    letters = tuple(MOMENT_VARIABLES)
    for name, term, total in moments.items():
        if name != step_class:
            assert total == 0
        elif term == "n":
            assert total == len(steps)
        elif len(term) == 1:
            assert total == pytest.approx(table[:, letters.index(term)].sum())
        else:
            row, column = (letters.index(letter) for letter in term)
            assert total == pytest.approx(gram[row, column])


def test_every_class_has_every_term() -> None:
    items = Moments().items()
    assert len(items) == len(STEP_CLASSES) * len(MOMENT_TERMS) == 3 * 21


def test_an_unknown_class_is_a_defect() -> None:
    with pytest.raises(KeyError):
        Moments().add("idle", (0, 0, 0, 0, 0))
