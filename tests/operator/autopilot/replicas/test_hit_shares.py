"""What prefix caches find as a function of the number of replicas."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.autopilot.replicas.hit_shares import REMEMBERED_S, WARM_S, noted, share_with
from paceline_operator.autopilot.situation.situation import Situation, understand
from paceline_operator.autopilot.vocabulary.memory import HitShare, Memory
from paceline_operator.autopilot.vocabulary.window import Counter
from tests.operator.autopilot.build import fleet
from tests.operator.autopilot.replicas.test_capacity_evidence import NOW, capacity_rps, served


def finding(share: float, *known: HitShare, pods: int = 4, use: float = 1.0) -> Situation:
    """Replicas whose caches find such a share of what is asked."""
    s = served(pods * use * capacity_rps(), 1.0, pods=pods)
    slices = tuple(
        replace(
            w,
            counters={
                **w.counters,
                Counter.PREFIX_QUERIES_TOKENS: w.count(Counter.PROMPT_TOKENS_RECEIVED),
                Counter.PREFIX_HITS_TOKENS: share * w.count(Counter.PROMPT_TOKENS_RECEIVED),
            },
        )
        for w in s.fleet.slices
    )
    seen = fleet(pods=pods, slices=slices, desired_replicas=pods)
    return understand(s.policy, seen, Memory(hit_shares=known), NOW)


def at(replicas: int, share: float, ago_s: float = 300.0) -> HitShare:
    return HitShare(replicas=replicas, share=share, at_s=NOW - ago_s)


def test_what_a_fleet_finds_is_remembered_by_its_size() -> None:
    memory = noted(finding(0.6, at(2, 0.7)))
    assert memory.hit_shares == (at(2, 0.7), HitShare(replicas=4, share=0.6, at_s=NOW))
    again = noted(finding(0.58, at(2, 0.7), at(4, 0.6)))
    assert [each.share for each in again.hit_shares] == [0.7, 0.58]


def test_once_requests_are_others_only_the_newest_counts() -> None:
    assert noted(finding(0.3, at(2, 0.7), at(4, 0.6))).hit_shares == (
        HitShare(replicas=4, share=0.3, at_s=NOW),
    )


def test_caches_that_are_not_warm_yet_teach_nothing() -> None:
    s = finding(0.6)
    young = replace(s.fleet.pods[0], created_s=NOW - WARM_S - 9, ready_since_s=NOW - WARM_S)
    cold = replace(s, fleet=replace(s.fleet, pods=(young, *s.fleet.pods[1:])))
    assert noted(cold).hit_shares == ()
    moved = replace(s, memory=replace(s.memory, scaled_in_at_s=NOW - 60))
    assert noted(moved).hit_shares == ()


# b of (2, 0.7) and (4, 0.6): 0.025 / (0.03125 + 0.01), 1 / N being 0.125 from their mean.
B = 0.0125 / (0.03125 + 0.01)


@pytest.mark.parametrize(
    ("known", "replicas", "expected"),
    [
        ((), 2, 0.6),  # nobody knows: the same
        ((at(4, 0.6),), 2, 0.6),
        ((at(2, 0.7), at(4, 0.6)), 4, 0.6),
        ((at(2, 0.7), at(4, 0.6)), 2, 0.6 + B / 4),
        ((at(2, 0.7), at(4, 0.6)), 8, 0.6 - B / 8),
        ((at(2, 0.7), at(4, 0.6)), 1, 0.7),  # never more than some fleet found
        ((at(2, 0.5), at(4, 0.6)), 2, 0.6),  # more replicas never find more
        ((at(5, 0.5), at(4, 0.6)), 8, 0.6 - 0.0025 / (0.00125 + 0.01) / 8),
        ((at(9, 0.5), at(8, 0.6)), 2, 0.6),  # sizes next to each other say nothing
        ((at(2, 0.7, REMEMBERED_S), at(4, 0.6)), 2, 0.6),  # long ago
    ],
)
def test_other_sizes_find_what_lies_on_the_line(
    known: tuple[HitShare, ...], replicas: int, expected: float
) -> None:
    assert share_with(finding(0.6, *known), replicas) == pytest.approx(expected, abs=1e-6)


def test_what_was_measured_counts_for_the_size_that_it_was_measured_of() -> None:
    """Minutes after a scale-in from 4 to 2 what is seen is what 4 found."""
    s = finding(0.6, at(2, 0.7, 900.0), at(4, 0.6, 60.0), pods=2)
    lately = replace(s, memory=replace(s.memory, scaled_in_at_s=NOW - 60))
    assert share_with(lately, 4) == pytest.approx(0.6)
    assert share_with(lately, 2) == pytest.approx(0.6 + B / 4)


@pytest.mark.parametrize("every_s", [5.0, 5.03, 5.15, 10.02, 15.05])
def test_slices_need_not_fit_into_the_time_a_fleet_must_have_served(every_s: float) -> None:
    s = finding(0.6)
    count = int(300 / every_s)
    slices = tuple(
        replace(
            s.fleet.slices[0],
            start_s=NOW - every_s * (n + 1),
            end_s=NOW - every_s * n,
        )
        for n in reversed(range(count))
    )
    seen = replace(s, fleet=replace(s.fleet, slices=slices))
    assert [each.share for each in noted(seen).hit_shares] == [0.6]


def test_a_fleet_that_lacks_a_pod_is_none_of_that_size() -> None:
    s = finding(0.6)
    lacking = replace(s, fleet=replace(s.fleet, pods=s.fleet.pods[1:]))
    assert noted(lacking).hit_shares == ()


@given(
    shares=st.lists(st.tuples(st.integers(1, 64), st.floats(0.0, 0.95)), max_size=6),
    replicas=st.integers(1, 64),
)
def test_it_is_a_share_and_falls_with_replicas(
    shares: list[tuple[int, float]], replicas: int
) -> None:
    known = tuple(at(n, share) for n, share in dict(shares).items())
    s = finding(0.5, *known)
    found, more = share_with(s, replicas), share_with(s, replicas + 1)
    assert 0.0 <= more <= found <= 0.95
