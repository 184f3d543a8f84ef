from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_operator.autopilot.vocabulary.window import Counter as Role
from paceline_operator.autopilot.vocabulary.window import merge
from paceline_operator.simulator.fleet.faults import Fault, PodKilled, ScrapesLost, StepsSlower
from paceline_operator.simulator.fleet.fleet_config import Routing, RoutingKind
from paceline_operator.simulator.request import Request
from paceline_operator.simulator.result import Result
from paceline_operator.simulator.scoring.outcome import (
    ABORTED,
    COMPLETED,
    FAILED,
    REFUSED,
    UNFINISHED,
)
from tests.operator.simulator.fleets import LAW, Scripted, engine, knobs, poisson, run, to


def outcomes(result: Result) -> Counter[str]:
    return Counter(outcome.outcome for outcome in result.outcomes)


def test_one_request_alone_takes_the_time_that_the_law_says() -> None:
    """A prompt of 700 in chunks of 512 and 188, then 9 steps of one row."""
    result = run(iter([Request(3.0, 700, 10)]))
    (outcome,) = result.outcomes
    first_s = (2 * LAW.base_ms + 700 * LAW.per_prefill_token_ms) / 1e3
    rest_s = 9 * (LAW.base_ms + LAW.per_decode_row_ms) / 1e3
    assert outcome.ttft_s == pytest.approx(first_s)
    assert outcome.e2e_s == pytest.approx(first_s + rest_s)
    assert (outcome.arrival_s, outcome.gaps, outcome.late_gaps) == (3.0, 9, (0,))


def test_the_load_is_taken_as_its_time_comes() -> None:
    taken = []

    def endless() -> Iterator[Request]:
        for number in count():
            taken.append(number)
            yield Request(float(number), 10, 2)

    result = run(endless(), until_s=9.5)
    assert len(result.outcomes) == 10
    assert len(taken) <= 11
    assert result.length_s == 9.5


def test_what_is_still_on_its_way_at_the_end_is_unfinished() -> None:
    result = run(iter([Request(0.0, 10, 2), Request(1.0, 10, 1000)]), until_s=5.0)
    assert outcomes(result) == {COMPLETED: 1, UNFINISHED: 1}
    assert [o.ttft_s is not None for o in result.outcomes] == [True, True]


@pytest.mark.parametrize(("until_s", "length_s"), [(None, 100.0), (50.0, 50.0)])
def test_a_fleet_is_there_for_as_long_as_it_is_asked_for(
    until_s: float | None, length_s: float
) -> None:
    """Two pods, one short answer at the beginning."""
    load = [Request(0.0, 10, 2)]
    result = run(iter(load), until_s=until_s, at_least_s=100.0)
    assert result.length_s == length_s
    assert result.replica_seconds == pytest.approx(2 * length_s)
    assert 0.0 <= length_s - result.samples[-1].time_s <= 5.0
    assert run(iter(load)).length_s == 5.0  # the first scrape after the answer


def test_replicas_cost_from_their_making_to_their_end() -> None:
    """Two pods; two more from second 20, one of them unready; at 60 all but one go, idle."""
    law = Scripted({20.0: to(4), 60.0: to(1)})
    result = run(iter([Request(0.0, 10, 2)]), law, until_s=100.0, scale_delay_s=0.0)
    full = 2 * 100.0 + 2 * 80.0
    gone_s = 60.0 + 5.0  # the grace of a drain, then each pod is empty
    assert result.replica_seconds == pytest.approx(full - 3 * (100.0 - gone_s), abs=3.0)
    assert [s.ready for s in result.samples if s.time_s in (35.0, 45.0, 95.0)] == [2, 4, 1]


def test_patience_and_timeouts() -> None:
    """One seat: the second request waits 1.05 s for its first token, the third even longer."""
    one_seat = engine(max_num_seqs=1, initial_running_seqs=1)
    sent = [Request(0.0, 10, 101), Request(0.001, 10, 101), Request(0.002, 10, 201)]
    more = {"engine": one_seat, "initial_replicas": 1}
    assert outcomes(run(iter(sent), **more)) == {COMPLETED: 3}
    impatient = run(iter(sent), patience_s=1.5, **more)
    assert outcomes(impatient) == {COMPLETED: 2, ABORTED: 1}
    assert [o.ttft_s for o in impatient.outcomes if o.outcome == ABORTED] == [None]
    hasty = run(iter(sent), timeout_s=3.0, **more)
    assert outcomes(hasty) == {COMPLETED: 2, ABORTED: 1}
    (left,) = (o for o in hasty.outcomes if o.outcome == ABORTED)
    assert left.ttft_s == pytest.approx(2.14, abs=0.1)
    assert left.gaps > 50


def test_a_full_queue_refuses_and_what_never_fits_is_no_load() -> None:
    small = engine(max_num_seqs=1, initial_running_seqs=1, max_queued_requests=1)
    load = [*poisson(20.0, 5.0), Request(6.0, 5000, 10)]
    law = Scripted()
    result = run(iter(load), law, engine=small, initial_replicas=1, until_s=60.0)
    found = outcomes(result)
    assert set(found) == {COMPLETED, REFUSED}
    assert result.refusals == {"queued_requests": found[REFUSED] - 1, "never_fits": 1}
    grown = merge(law.at(60.0).slices)
    assert grown.count(Role.REQUESTS_RECEIVED) == len(load) - 1
    assert grown.count(Role.REQUESTS_REJECTED) == found[REFUSED]


def test_without_a_pod_requests_are_refused() -> None:
    result = run(poisson(2.0, 10.0), initial_replicas=0, until_s=20.0)
    assert set(outcomes(result)) == {REFUSED}
    assert result.refusals == {"unserved": len(result.outcomes)}


def everything(at_s: float) -> tuple[Fault, ...]:
    return (
        PodKilled(at_s=at_s, place=1, unnoticed_s=3.0),
        StepsSlower(start_s=at_s / 2, end_s=at_s, factor=1.5),
        ScrapesLost(start_s=at_s, end_s=at_s + 20.0, pods=frozenset({1})),
    )


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 1000),
    rate=st.floats(1.0, 12.0),
    replicas=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    kill_s=st.none() | st.floats(5.0, 60.0),
    kind=st.sampled_from(RoutingKind),
)
def test_every_request_has_one_outcome_and_scale_in_cuts_none(
    seed: int, rate: float, replicas: list[int], kill_s: float | None, kind: RoutingKind
) -> None:
    load = list(poisson(rate, 80.0, seed))
    script = {10.0 + 15.0 * place: to(number) for place, number in enumerate(replicas)}
    faults = () if kill_s is None else everything(kill_s)
    result = run(iter(load), Scripted(script), faults=faults, routing=Routing(kind=kind), seed=seed)
    arrived = Counter(request.arrival_s for request in load)
    assert Counter(outcome.arrival_s for outcome in result.outcomes) == arrived
    found = outcomes(result)
    assert set(found) <= ({COMPLETED} if kill_s is None else {COMPLETED, FAILED, REFUSED})
    assert set(result.refusals) <= {"unserved"}
    assert result.cut == 0
    changes = 5.0 * sum(abs(b.existing - a.existing) for a, b in pairwise(result.samples))
    counted = sum(5.0 * sample.existing for sample in result.samples[:-1])
    assert result.replica_seconds == pytest.approx(counted, abs=changes + 25.0)


@pytest.mark.parametrize("kind", RoutingKind)
def test_the_same_seed_gives_the_same_bytes(kind: RoutingKind) -> None:
    def one(seed: int) -> str:
        script = {5.0: to(3), 10.0: knobs(256), 20.0: to(1)}
        more = {"faults": everything(12.0), "cold_start_s": 8.0, "cold_start_jitter": 0.3}
        load = poisson(4.0, 30.0)
        return repr(run(load, Scripted(script), routing=Routing(kind=kind), seed=seed, **more))

    assert one(1) == one(1)
    assert one(1) != one(2)
