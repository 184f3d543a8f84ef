from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.domain.quantity import parse, whole


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1), (2, 2), ("500m", Decimal("0.5")), ("1Gi", 2**30), ("1G", 10**9), ("1k", 1000),
        ("1.5Mi", 1572864), ("1e3", 1000), ("100n", Decimal("1e-7")), ("x", None), ("", None),
        ("5Q", None),
    ],
)  # fmt: skip
def test_parse(text: object, value: object) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("700m", 0),
        ("1500m", 1),
        ("4", 4),
        ("bad", 0),
        ("1e99999", 2**63 - 1),
        ("1e99999999", 0),
        ("9e999999Ei", 0),
        ("Infinity", 0),
        ("NaN", 0),
    ],
)
def test_whole_rounds_down(text: str, value: int) -> None:
    assert whole(text) == value


@given(st.integers(min_value=0, max_value=10**9))
def test_milli_is_a_thousandth(number: int) -> None:
    assert parse(f"{number}m") == Decimal(number) / 1000
