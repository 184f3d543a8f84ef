from __future__ import annotations

import pytest

from paceline_operator.simulator.request import Request
from paceline_operator.simulator.what_if.lead_in import lead_s, led_in

LOAD = [Request(float(second), 600, 10, (1, second)) for second in range(100)]


def test_the_beginning_is_played_twice() -> None:
    found = list(led_in(lambda: iter(LOAD), 30.0))
    assert [each.arrival_s for each in found] == [*range(30), *range(30, 130)]
    assert all(each.prompt_tokens == 600 for each in found)


def test_what_is_scored_finds_nothing_that_the_lead_in_computed() -> None:
    found = list(led_in(lambda: iter(LOAD), 30.0))
    before = {block for each in found[:30] for block in each.prefix_blocks}
    scored = [block for each in found[30:] for block in each.prefix_blocks]
    assert not before & set(scored)
    assert len({each.prefix_blocks[0] for each in found[30:]}) == 1


@pytest.mark.parametrize(
    ("cold_start_s", "span_s", "wanted_s"),
    [(30.0, 3600.0, 600.0), (300.0, 36_000.0, 1500.0), (300.0, 480.0, 480.0)],
)
def test_it_is_long_enough_for_the_fleet_to_settle(
    cold_start_s: float, span_s: float, wanted_s: float
) -> None:
    assert lead_s(cold_start_s, span_s) == wanted_s
