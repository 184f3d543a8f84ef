from __future__ import annotations

import pytest

from paceline_operator.autopilot.vocabulary.fleet import DataClass, FleetObservation
from paceline_operator.autopilot.vocabulary.window import Counter
from paceline_operator.metrics import scraper
from paceline_operator.simulator.fleet.faults import MetricsFrozen, PodKilled, ScrapesLost
from paceline_operator.simulator.fleet.fleet_config import ABSENT_AFTER_S, STALE_AFTER_SCRAPES
from paceline_operator.simulator.request import Request
from tests.operator.simulator.fleets import Scripted, poisson, run, to

ONE = frozenset({1})


def even(every_s: float, until_s: float, output: int = 5) -> list[Request]:
    """Requests at a steady pace, never at a scrape."""
    number = int(until_s / every_s)
    return [Request(0.3 + every_s * place, 50, output) for place in range(number)]


def received(seen: FleetObservation) -> list[float]:
    return [w.count(Counter.REQUESTS_RECEIVED) for w in seen.slices]


def data(law: Scripted, number: int, *times_s: float) -> list[DataClass]:
    return [law.at(at_s).pods[number - 1].data for at_s in times_s]


def test_ages_are_those_of_the_operator() -> None:
    assert STALE_AFTER_SCRAPES * scraper.SCRAPE_INTERVAL_S == scraper.STALE_AFTER_S
    assert ABSENT_AFTER_S == scraper.ABSENT_AFTER_S


def test_a_slice_for_each_round_with_all_that_came() -> None:
    law = Scripted()
    run(iter(even(1.0, 20.0)), law, until_s=20.0)
    assert [len(seen.slices) for seen in law.seen] == [0, 1, 2, 3, 4]
    assert received(law.at(20.0)) == [5.0, 5.0, 5.0, 5.0]
    assert [w.pod_seconds for w in law.at(20.0).slices] == [10.0] * 4


def test_gauges_are_those_of_the_moment() -> None:
    law = Scripted()
    busy = [Request(0.3, 100, 2000), Request(0.4, 100, 2000), Request(0.5, 100, 2000)]
    run(iter(busy), law, until_s=10.0)
    assert [pod.running for pod in law.at(5.0).pods] == [2, 1]
    assert law.at(5.0).pods[0].kv_capacity_tokens == 64_000
    assert law.at(5.0).pods[0].kv_usage > law.at(5.0).pods[1].kv_usage > 0.0


def test_two_lost_rounds_come_at_once_and_three_are_too_old() -> None:
    law = Scripted()
    lost = [
        ScrapesLost(start_s=10.0, end_s=20.0, pods=ONE),
        ScrapesLost(start_s=40.0, end_s=60.0, pods=ONE),
    ]
    run(iter(even(1.0, 80.0)), law, until_s=80.0, faults=lost)
    assert data(law, 1, 15.0, 50.0, 55.0, 60.0) == ["fresh", "fresh", "stale", "fresh"]
    assert data(law, 2, 15.0, 50.0, 55.0, 60.0) == ["fresh"] * 4
    assert sum(received(law.at(35.0))) == pytest.approx(35.0)
    # From 35 to 60 one pod's half is lost: 12 or 13 of 25 requests.
    kept = sum(received(law.at(60.0))) - sum(received(law.at(35.0)))
    assert kept == pytest.approx(12.5, abs=0.6)


def test_after_five_minutes_nothing_is_known() -> None:
    law = Scripted()
    run(iter([]), law, until_s=330.0, faults=[ScrapesLost(start_s=10.0)])
    assert data(law, 1, 5.0, 25.0, 305.0, 310.0) == ["fresh", "stale", "stale", "absent"]


def test_frozen_metrics_look_fresh_and_bring_all_at_the_end() -> None:
    law = Scripted()
    frozen = [MetricsFrozen(start_s=10.0, end_s=30.0)]
    run(iter(even(1.0, 40.0, output=400)), law, until_s=40.0, faults=frozen)
    assert data(law, 1, 15.0, 25.0) == ["fresh", "fresh"]
    assert [pod.running for pod in law.at(25.0).pods] == [pod.running for pod in law.at(5.0).pods]
    assert received(law.at(40.0)) == [5.0, 0.0, 0.0, 0.0, 0.0, 25.0, 5.0, 5.0]


def test_a_pod_that_starts_answers_before_it_is_ready() -> None:
    law = Scripted({10.0: to(3)})
    run(poisson(2.0, 60.0), law, until_s=60.0)
    new = [seen.pods[2] for seen in law.seen if len(seen.pods) > 2]
    assert [pod.data for pod in new[:2]] == ["fresh", "fresh"]
    ready_at = next(s.now_s for s in law.seen if len(s.pods) == 3 and s.pods[2].ready)
    assert ready_at - 1000.0 == 35.0


def test_series_of_a_dead_pod_may_be_kept() -> None:
    law = Scripted()
    dead = [
        PodKilled(at_s=12.0, unnoticed_s=40.0),
        MetricsFrozen(start_s=12.0, end_s=52.0, pods=ONE),
    ]
    run(iter(even(0.5, 60.0, output=600)), law, until_s=60.0, faults=dead)
    alive, kept = law.at(10.0).pods[0], law.at(45.0).pods[0]
    assert (kept.name, kept.data, kept.ready) == ("pod-1", "fresh", True)
    assert kept.running == alive.running > 0
    assert [pod.name for pod in law.at(55.0).pods] == ["pod-2", "pod-3"]
