"""When a simulated figure lies too far from a served one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.validation.__main__ import Comparison, verdict
from bench.validation.case import ON_CPU, ON_DEVICE
from bench.validation.measures import (
    JUDGED,
    Distance,
    Measures,
    Targets,
    distances,
    measures,
    middle,
)
from paceline_operator.simulator.profiles import find_profile

TARGETS = Targets(ttft_ms=200.0, itl_ms=50.0)
SERVED = Measures(
    requests=100, gaps=1000, ttft_percent=90.0, itl_percent=95.0, ttft_p50_ms=100.0,
    ttft_p95_ms=250.0, itl_p50_ms=20.0, itl_p95_ms=50.0,
)  # fmt: skip


def test_figures_are_shares_and_nearest_rank_percentiles() -> None:
    found = measures([100.0, 150.0, 200.0, 900.0], [10.0] * 19 + [80.0], TARGETS)
    assert (found.ttft_percent, found.itl_percent) == (75.0, 95.0)
    assert (found.ttft_p50_ms, found.ttft_p95_ms) == (150.0, 900.0)
    assert (found.itl_p50_ms, found.itl_p95_ms) == (10.0, 10.0)


@pytest.mark.parametrize(("ttft_ms", "gaps_ms"), [([], [1.0]), ([1.0], [])])
def test_nothing_measured_is_an_error(ttft_ms: list[float], gaps_ms: list[float]) -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        measures(ttft_ms, gaps_ms, TARGETS)


@pytest.mark.parametrize(
    ("change", "short"),
    [
        ({}, []),
        ({"ttft_percent": 94.9}, []),
        ({"ttft_percent": 84.9}, ["ttft_percent"]),
        ({"itl_p50_ms": 21.9}, []),
        ({"itl_p50_ms": 22.1}, ["itl_p50_ms"]),
        ({"ttft_p50_ms": 89.0}, ["ttft_p50_ms"]),
        ({"ttft_p95_ms": 299.0, "itl_p95_ms": 41.0}, []),
        ({"ttft_p95_ms": 301.0, "itl_p95_ms": 39.0}, ["ttft_p95_ms", "itl_p95_ms"]),
    ],
)
def test_limits_of_the_simulated_device(change: dict[str, float], short: list[str]) -> None:
    found = distances([SERVED], replace(SERVED, **change), ON_DEVICE)
    assert [each.name for each in found] == list(JUDGED)
    assert [each.name for each in found if not each.holds] == short


def test_what_repeats_differ_by_is_allowed_where_it_is_more() -> None:
    repeats = [replace(SERVED, ttft_p95_ms=value) for value in (200.0, 250.0, 350.0)]
    near, far = (
        next(
            d for d in distances(repeats, replace(SERVED, ttft_p95_ms=v), ON_CPU) if "p95" in d.name
        )
        for v in (390.0, 410.0)
    )
    assert (near.served, near.spread) == (250.0, pytest.approx(0.6))
    assert near.holds
    assert not far.holds


@pytest.mark.parametrize(
    ("name", "served", "holds", "short"),
    [
        ("ttft_percent", 60.0, (43.0, 77.0), (41.0, 79.0)),
        ("itl_percent", 90.0, (64.0, 100.0), (62.0,)),
        ("ttft_p50_ms", 100.0, (71.0, 129.0), (69.0, 131.0)),
        ("itl_p95_ms", 50.0, (36.0, 64.0), (34.0, 66.0)),
    ],
)
def test_a_real_engine_is_missed_by_more_than_30_percent_of_what_it_served(
    name: str, served: float, holds: tuple[float, ...], short: tuple[float, ...]
) -> None:
    repeats = [replace(SERVED, **{name: served})] * 3

    def found(simulated: float) -> bool:
        every = distances(repeats, replace(SERVED, **{name: simulated}), ON_CPU)
        return next(each.holds for each in every if each.name == name)

    assert [found(value) for value in holds] == [True] * len(holds)
    assert [found(value) for value in short] == [False] * len(short)


@pytest.mark.parametrize(
    ("values", "says_nothing"), [((50.0, 100.0, 149.0), False), ((40.0, 100.0, 141.0), True)]
)
def test_repeats_that_differ_by_all_there_is_say_nothing(
    values: tuple[float, ...], says_nothing: bool
) -> None:
    """Any simulated figure down to nothing would do: that is void, not ok."""
    repeats = [replace(SERVED, itl_p95_ms=value) for value in values]
    found = distances(repeats, replace(SERVED, itl_p95_ms=0.5), ON_CPU)
    assert any(each.says_nothing for each in found) is says_nothing
    word = verdict([comparison(repeats=repeats, distances=found)]).split()[1]
    assert word == ("void" if says_nothing else "short")


def test_the_middle_is_taken_of_each_figure() -> None:
    repeats = [replace(SERVED, ttft_p50_ms=a, itl_p50_ms=b) for a, b in ((1, 9), (5, 5), (9, 1))]
    assert (middle(repeats).ttft_p50_ms, middle(repeats).itl_p50_ms) == (5, 5)


def comparison(**changes: object) -> Comparison:
    good = Comparison(
        name="case",
        profile=find_profile("llama-3-8b-a100"),
        repeats=(SERVED,),
        simulated=SERVED,
        distances=distances([SERVED], SERVED, ON_DEVICE),
        lost=0,
        host_cpu=0.3,
        lag_ms=2.0,
        is_disturbed=False,
    )
    return replace(good, **changes)


FAR = (Distance(name="itl_p50_ms", served=20.0, simulated=30.0, limit=0.1),)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "validation: ok figures=6 missed=0 lost=0 host_cpu=0.30"),
        (
            {"distances": FAR},
            "validation: short figures=1 missed=1 lost=0 host_cpu=0.30 short_of=case/itl_p50_ms",
        ),
        ({"lost": 2}, "validation: short figures=6 missed=0 lost=2 host_cpu=0.30"),
        (
            {"is_disturbed": True, "host_cpu": 0.9},
            "validation: void figures=6 missed=0 lost=0 host_cpu=0.90",
        ),
        ({"lag_ms": 21.0}, "validation: void figures=6 missed=0 lost=0 host_cpu=0.30"),
    ],
)
def test_the_last_line(changes: dict[str, object], line: str) -> None:
    assert verdict([comparison(**changes)]) == line


def test_no_case_is_no_success() -> None:
    assert verdict([]).startswith("validation: short")
