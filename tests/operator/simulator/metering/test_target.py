from __future__ import annotations

from math import inf, nextafter

from hypothesis import example, given
from hypothesis import strategies as st

from paceline_operator.simulator.metering.target import longest_s


@given(st.integers(1, 10_000_000))
@example(29)  # 0.029 x 1000 is more than 29
@example(1009)
def test_the_verdict_is_that_in_milliseconds(target_ms: int) -> None:
    limit_s = longest_s(target_ms)
    assert limit_s * 1e3 <= target_ms < nextafter(limit_s, inf) * 1e3
