"""Tags, weights, and a step divided between two of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_engine.scheduler.share import Share, divide, split

WEIGHT = st.floats(0.01, 100)


def test_a_tag_grows_by_tokens_over_weight() -> None:
    share = Share(0.25)
    share.charge(10)
    share.charge(-2)
    assert share.tag == 32


@pytest.mark.parametrize(("tag", "joined"), [(5.0, 8.0), (11.0, 11.0)])
def test_a_pause_earns_nothing_and_costs_nothing(tag: float, joined: float) -> None:
    share = Share(1.0)
    share.charge(tag)
    share.join(8.0)
    assert share.tag == joined


@pytest.mark.parametrize("weight", [0.0, -1.0, math.nan, math.inf])
def test_a_weight_is_a_positive_number(weight: float) -> None:
    with pytest.raises(ValueError, match="positive weight"):
        Share(weight)


def test_equal_tags_are_split_by_weight() -> None:
    assert split(500, Share(1.0), Share(0.25)) == (400, 100)


def test_who_is_behind_catches_up_first() -> None:
    ahead = Share(0.25)
    ahead.charge(100)
    assert split(400, Share(1.0), ahead) == (400, 0)
    assert split(400, ahead, Share(1.0)) == (0, 400)


@given(
    tokens=st.integers(0, 4096),
    weights=st.tuples(WEIGHT, WEIGHT),
    served=st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)),
)
def test_a_split_loses_no_token_and_never_widens_the_gap(
    tokens: int, weights: tuple[float, float], served: tuple[float, float]
) -> None:
    first, second = (Share(weight) for weight in weights)
    first.charge(served[0])
    second.charge(served[1])
    gap = abs(first.tag - second.tag)
    mine, rest = split(tokens, first, second)
    assert mine >= 0 <= rest
    assert mine + rest == tokens
    first.charge(mine)
    second.charge(rest)
    rounding = 1 / first.weight + 1 / second.weight
    assert abs(first.tag - second.tag) <= gap + rounding


@given(
    tokens=st.integers(0, 4096),
    parties=st.lists(
        st.tuples(WEIGHT, st.one_of(st.integers(1, 2000), st.just(math.inf))),
        min_size=1,
        max_size=6,
    ),
)
def test_tokens_are_divided_by_weight_among_those_who_want_more(
    tokens: int, parties: list[tuple[float, float]]
) -> None:
    shares = {index: Share(weight) for index, (weight, _) in enumerate(parties)}
    wanted = {index: most for index, (_, most) in enumerate(parties)}
    parts = divide(tokens, wanted, shares)
    assert parts.keys() == wanted.keys()
    assert all(1 <= part <= wanted[index] for index, part in parts.items())
    lacking = [index for index, part in parts.items() if part < wanted[index]]
    assert sum(parts.values()) <= max(tokens, 0) + len(parts)
    if lacking:
        assert sum(parts.values()) >= tokens - len(parts)  # nothing is left over but by rounding
        level = min((parts[index] + 1) / shares[index].weight for index in lacking)
        for index, part in parts.items():
            assert part <= max(1, shares[index].weight * level * (1 + 1e-9) + 1e-9)


def test_who_was_served_least_for_its_weight_stands_first() -> None:
    shares = {"a": Share(1.0), "b": Share(4.0)}
    shares["a"].charge(10)
    shares["b"].charge(20)
    assert list(divide(10, {"a": 5, "b": math.inf}, shares).items()) == [("b", 8), ("a", 2)]
