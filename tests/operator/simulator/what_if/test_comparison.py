from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paceline_operator.simulator.what_if.comparison import Spread, Variant, verdict
from paceline_operator.simulator.what_if.figures import Figures
from tests.operator.simulator.what_if.build import ITL, TTFT, comparison, figures, variant

GOOD = figures()
LATE = figures(attained=(0.90, 0.99))
DEAR = figures(replica_hours=8.0)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            GOOD, DEAR,
            "The new spec meets both objectives as before, and needs 8.00 replica-hours instead of "
            "4.00 (100 % more) at 20.00 instead of 10.00.",
        ),
        (
            LATE, GOOD,
            "The new spec meets both objectives; the old one misses first-token, and needs 4.00 "
            "replica-hours, the same as before at 10.00 instead of 10.00.",
        ),
        (
            DEAR, LATE,
            "The new spec misses first-token (90.0 % of 95 %); the old one meets first-token, and "
            "needs 4.00 replica-hours instead of 8.00 (50 % fewer) at 10.00 instead of 20.00.",
        ),
        (
            LATE, LATE,
            "The new spec misses first-token (90.0 % of 95 %); the old one misses first-token "
            "(90.0 % of 95 %), and needs 4.00 replica-hours, the same as before at 10.00 instead "
            "of 10.00.",
        ),
        (
            GOOD, replace(GOOD, worst_5min=0.7),
            "The new spec meets both objectives as before, serves 70.0 % of requests within them "
            "in its worst five minutes instead of 90.0 %, and needs 4.00 replica-hours, the same "
            "as before at 10.00 instead of 10.00.",
        ),
        (
            None, GOOD,
            "The new spec meets both objectives, and needs 4.00 replica-hours at 10.00.",
        ),
    ],
)  # fmt: skip
def test_the_verdict_is_one_sentence(old: object, new: object, said: str) -> None:
    before = None if old is None else variant("old", old)  # type: ignore[arg-type]
    assert verdict(comparison(before, variant("new", new))) == said  # type: ignore[arg-type]


@pytest.mark.parametrize(("before", "after"), [(1.0, None), (None, 0.2), (None, None)])
def test_worst_minutes_that_nobody_knows_are_not_told(
    before: float | None, after: float | None
) -> None:
    pair = (variant(n, figures(worst_5min=w)) for n, w in (("old", before), ("new", after)))
    assert "worst" not in verdict(comparison(*pair))


def test_a_spec_without_objectives_or_price() -> None:
    new = variant("new", price=None, objectives=())
    assert verdict(comparison(None, new)) == (
        "The new spec states no objective, and needs 4.00 replica-hours."
    )


NONE, HALF = figures(attained=(None, None)), figures(attained=(0.97, None))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            None, HALF,
            "The new spec meets first-token; cadence has no samples, so nothing is proven of it",
        ),
        (
            None, NONE,
            "The new spec proves nothing, as first-token and cadence have no samples",
        ),
        (
            GOOD, figures(attained=(0.90, None)),
            "The new spec misses first-token (90.0 % of 95 %); cadence has no samples, so nothing "
            "is proven of it; the old one meets first-token and cadence",
        ),
        (
            HALF, GOOD,
            "The new spec meets both objectives; with the old one cadence has no samples",
        ),
        (
            LATE, HALF,
            "The new spec meets first-token; cadence has no samples, so nothing is proven of it; "
            "the old one meets cadence",
        ),
    ],
)  # fmt: skip
def test_what_has_no_samples_is_neither_met_nor_missed(
    old: Figures | None, new: Figures, said: str
) -> None:
    before = None if old is None else variant("old", old)
    assert verdict(comparison(before, variant("new", new))).startswith(f"{said}, and needs 4.00")


def test_an_objective_without_samples_is_unproven() -> None:
    found = variant("new", HALF)
    assert (found.missed, found.unproven) == ((), (ITL,))
    assert (found.held(TTFT), found.held(ITL), found.attained(ITL)) == (True, None, None)


def test_seeds_without_samples_do_not_count() -> None:
    assert variant("new", HALF, GOOD).attained(ITL) == Spread(mean=0.99, least=0.99, most=0.99)


def test_seeds_give_a_spread() -> None:
    found = variant("new", figures(replica_hours=3.0), figures(replica_hours=5.0))
    assert found.spread(lambda run: run.replica_hours) == Spread(mean=4.0, least=3.0, most=5.0)
    assert found.cost == Spread(mean=10.0, least=7.5, most=12.5)


@given(share=st.floats(0.0, 1.0), count=st.integers(1, 100))
@example(share=0.9, count=3)
def test_a_mean_lies_between_the_least_and_the_most(share: float, count: int) -> None:
    found = variant("new", *[figures(replica_hours=share)] * count)
    assert found.spread(lambda run: run.replica_hours) == Spread(
        mean=share, least=share, most=share
    )


def test_an_objective_is_held_by_its_mean() -> None:
    def of(*shares: float) -> Variant:
        return variant("new", *(figures(attained=(share, 0.99)) for share in shares))

    assert of(0.93, 0.97).missed == ()
    assert of(0.92, 0.97).missed == (TTFT,)


def test_an_objective_of_the_other_spec_alone() -> None:
    other = replace(TTFT, name="other")
    assert variant("new").attained(other) is None
