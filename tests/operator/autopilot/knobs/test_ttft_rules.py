"""When a larger budget is worth a try, and when ITL has refused it already."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline_operator.autopilot.knobs.ttft_rules import REFUSED_LASTS_S, raise_budget
from paceline_operator.autopilot.learning import learned
from paceline_operator.autopilot.situation.situation import Situation, understand
from paceline_operator.autopilot.vocabulary.decision import Reason
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation, Tunables
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.window import Counter
from tests.operator.autopilot.build import auto
from tests.operator.autopilot.knobs.test_itl_rules import NOW, seen

KNOBS = Tunables(max_num_batched_tokens=96, max_num_running_seqs=64)


def offered(requests: float) -> FleetObservation:
    """So many requests of 100 tokens in each 5 s, on two replicas that hold ITL."""
    counters = {Counter.REQUESTS_RECEIVED: requests, Counter.PROMPT_TOKENS_RECEIVED: 100 * requests}
    base = seen(40, 50, good=100, desired_tunables=KNOBS)
    return replace(base, slices=tuple(replace(w, counters=counters) for w in base.slices))


def situation(requests: float, memory: Memory) -> Situation:
    given, fleet = auto(1000, 100), offered(requests)
    return understand(given, fleet, learned(given, fleet, memory, NOW), NOW)


@pytest.mark.parametrize(
    ("refused", "ago_s", "holds"),
    [(0, 60, False), (112, 60, True), (160, 60, False), (112, REFUSED_LASTS_S + 1, False)],
    ids=["never refused", "refused lately", "a larger one was", "long ago"],
)
def test_under_overload_a_budget_that_itl_refused_is_not_tried_again(
    refused: int, ago_s: float, holds: bool
) -> None:
    memory = Memory(refused_budget=refused, refused_at_s=NOW - ago_s)
    s = situation(400.0, memory)
    assert s.overload is not None
    move = raise_budget(s)
    assert move is not None
    assert (move.reason is Reason.OVERLOADED, move.holds) == (holds, holds), move.message
    if holds:
        assert "no budget meets the objectives, only replicas help" in move.message
        assert "The budget stays 96: 112 tokens broke the ITL target." in move.message


def test_demand_that_fits_is_no_overload() -> None:
    assert situation(5.0, Memory()).overload is None


def test_the_smallest_budget_that_is_too_long_is_the_floor_and_no_cap() -> None:
    s = situation(400.0, Memory())
    least = s.ladder().floor
    knobs = replace(KNOBS, max_num_batched_tokens=least)
    given = auto(1000, 20)
    fleet = replace(s.fleet, desired_tunables=knobs)
    s = understand(given, fleet, learned(given, fleet, Memory(), NOW), NOW)
    assert s.cap is None
    move = raise_budget(s)
    assert move is not None
    assert (move.reason, move.after) == (Reason.AT_FLOOR, least)
    assert f"The smallest budget of {least} takes" in move.message
