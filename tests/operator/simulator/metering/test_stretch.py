"""Closed forms against a plain loop over the steps."""

from __future__ import annotations

from bisect import bisect_left

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paceline_operator.autopilot.vocabulary.window import TERMS, Latency, Moments
from paceline_operator.simulator.metering.edges import EDGES
from paceline_operator.simulator.metering.stretch import (
    Stretch,
    add_moments,
    buckets_of,
    steps_within,
)
from tests.operator.autopilot.build import moments

EDGES_S = EDGES[Latency.ITL]

stretches = st.builds(
    Stretch,
    steps=st.integers(1, 400),
    rows=st.integers(1, 256),
    kv_tokens=st.integers(0, 400_000),
    first_s=st.floats(1e-4, 2.0),
    growth_s=st.one_of(st.just(0.0), st.floats(1e-9, 1e-2)),
)


def times(stretch: Stretch) -> list[float]:
    return [stretch.first_s + i * stretch.growth_s for i in range(stretch.steps)]


@given(stretches)
@example(Stretch(1, 1, 0, 0.05, 0.0))
def test_moments_are_those_of_the_single_steps(stretch: Stretch) -> None:
    singly = moments(
        *(
            (0, stretch.rows, stretch.kv_tokens + i * stretch.rows, 0, seconds)
            for i, seconds in enumerate(times(stretch))
        )
    )
    before = [float(place) for place in range(len(TERMS))]
    sums = list(before)
    add_moments(sums, stretch)
    grown = [after - old for after, old in zip(sums, before, strict=True)]
    assert grown == pytest.approx(singly.sums, rel=1e-9, abs=1e-6)
    assert stretch.seconds == pytest.approx(Moments(singly.sums).of("t"), rel=1e-9)


@given(stretches)
@example(Stretch(4, 1, 0, 0.025, 0.0))  # all on an edge
@example(Stretch(100, 1, 0, 0.03, 0.01))  # many edges, some of them met
@example(Stretch(3, 1, 0, 100.0, 0.0))  # above all edges
def test_every_step_is_in_the_bucket_of_its_own_time(stretch: Stretch) -> None:
    singly: dict[int, int] = {}
    for seconds in times(stretch):
        bucket = bisect_left(EDGES_S, seconds)
        singly[bucket] = singly.get(bucket, 0) + 1
    found = buckets_of(EDGES_S, stretch.first_s, stretch.growth_s, stretch.steps)
    assert dict(found) == singly
    assert len(found) == len(singly)


@given(stretches, st.integers(0, 399))
def test_steps_up_to_the_time_of_one_of_them(stretch: Stretch, place: int) -> None:
    """The hardest limits are the times themselves: to the last bit in or out."""
    limit_s = times(stretch)[place % stretch.steps]
    counted = sum(seconds <= limit_s for seconds in times(stretch))
    assert steps_within(limit_s, stretch.first_s, stretch.growth_s, stretch.steps) == counted
