"""Which cold start is to be expected."""

from __future__ import annotations

import pytest

from paceline_operator.autopilot.measurement.cold_starts import longest_s, usual_s


@pytest.mark.parametrize(
    ("measured_s", "usual", "longest"),
    [
        ((), 120.0, 120.0),
        ((40.0,), 40.0, 40.0),
        ((350.0,), 350.0, 350.0),
        ((800.0,), 360.0, 360.0),
        ((30.0, 34.0), 30.0, 34.0),
        ((30.0, 800.0), 30.0, 90.0),
        ((30.0, 32.0, 800.0), 32.0, 96.0),
        ((30.0, 600.0, 620.0), 600.0, 620.0),
    ],
    ids=[
        "prior",
        "one",
        "a longer one",
        "one that may have waited",
        "two",
        "waited for a node",
        "of three",
        "new",
    ],
)
def test_the_longest_unless_it_is_far_from_usual(
    measured_s: tuple[float, ...], usual: float, longest: float
) -> None:
    assert usual_s(measured_s, 120.0) == usual
    assert longest_s(measured_s, 120.0) == longest
