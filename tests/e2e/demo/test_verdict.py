"""The last line: ok, short or void."""

from dataclasses import asdict, replace
from typing import Any

import pytest

from e2e.demo.verdict import Outcome, judge, recovery_limit_s
from e2e.load.report import Attainment
from e2e.verdict import ExitCode


def attained(share: float, n: int = 1000) -> Attainment:
    return Attainment(good=round(share * n), total=n, n=n)


GOOD = Outcome(
    requests=900,
    lost=0,
    itl_before=attained(0.7),
    itl_after=attained(0.97),
    ttft_after=attained(0.98),
    real_ttft_after=attained(0.99),
    simulated_itl_after=attained(0.995),
    steps_before=300,
    steps_after=400,
    recovery_s=40.0,
    cold_start_s=12.0,
    first_move_s=6.0,
    first_serving_s=14.0,
    replicas_peak=5,
    replicas_end=2,
    budget_moved=True,
    restarts=0,
    replaced_pods=0,
    host_cpu=0.5,
    outside_cpu=0.01,
    lag_ms=5.0,
)


def test_a_good_run_is_ok_and_says_every_figure() -> None:
    verdict = judge(GOOD)
    assert verdict.code is ExitCode.OK
    assert verdict.reasons == ()
    assert verdict.line == (
        "demo: ok requests=900 lost=0 itl_attainment_before=0.700 itl_attainment_after=0.970 "
        "real_ttft_attainment_after=0.990 ttft_attainment_after=0.980 "
        "simulated_itl_attainment_after=0.995 recovery_s=40.0 cold_start_s=12.0 replicas_peak=5 "
        "restarts=0 host_cpu=0.50"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"lost": 1},
        {"restarts": 1},
        {"budget_moved": False},
        {"steps_before": 199},
        {"steps_after": 199},
        {"ttft_after": attained(1.0, 399)},
        {"replaced_pods": 1},
        {"itl_before": attained(0.94)},
        {"itl_after": attained(0.9)},
        {"ttft_after": attained(0.9)},
        {"real_ttft_after": attained(0.9)},
        {"simulated_itl_after": attained(0.9)},
        {"itl_after": attained(0.0, 0)},
        {"recovery_s": None},
        {"recovery_s": recovery_limit_s(12.0) + 1},
        {"cold_start_s": None},
        {"first_move_s": None},
        {"first_move_s": 15.0},
        {"first_serving_s": None},
        {"replicas_end": 5},
    ],
    ids=str,
)
def test_each_thing_that_must_hold_makes_it_short(change: dict[str, Any]) -> None:
    verdict = judge(replace(GOOD, **change))
    assert verdict.code is ExitCode.SHORT
    assert len(verdict.reasons) >= 1
    assert verdict.line.startswith("demo: short ")


@pytest.mark.parametrize(
    "change", [{"host_cpu": 0.71}, {"outside_cpu": 0.11}, {"lag_ms": 101.0}], ids=str
)
def test_a_disturbed_machine_makes_it_void_whatever_else_failed(change: dict[str, Any]) -> None:
    verdict = judge(replace(GOOD, lost=3, **change))
    assert verdict.code is ExitCode.VOID
    assert len(verdict.reasons) == 2


def test_few_samples_below_the_objective_are_not_yet_short() -> None:
    assert judge(replace(GOOD, itl_after=attained(0.94, 200))).code is ExitCode.OK
    assert judge(replace(GOOD, itl_after=attained(0.94, 20_000))).code is ExitCode.SHORT


def test_the_machine_is_not_judged_where_it_is_elsewhere() -> None:
    verdict = judge(replace(GOOD, host_cpu=None, outside_cpu=None))
    assert verdict.code is ExitCode.OK
    assert verdict.line.endswith("host_cpu=unknown")


def test_what_is_not_known_is_said_as_none() -> None:
    line = judge(replace(GOOD, recovery_s=None, cold_start_s=None)).line
    assert "recovery_s=none cold_start_s=none" in line


@pytest.mark.parametrize(
    ("figure", "name"),
    [
        ("itl_before", "itl_attainment_before"),
        ("itl_after", "itl_attainment_after"),
        ("real_ttft_after", "real_ttft_attainment_after"),
        ("ttft_after", "ttft_attainment_after"),
        ("simulated_itl_after", "simulated_itl_attainment_after"),
    ],
)
def test_every_attainment_that_is_judged_is_in_the_line(figure: str, name: str) -> None:
    line = judge(replace(GOOD, **{figure: attained(0.123)})).line
    assert f" {name}=0.123 " in line
    assert line.count("=0.123") == 1
    assert {field for field, value in asdict(GOOD).items() if isinstance(value, dict)} == {
        "itl_before",
        "itl_after",
        "real_ttft_after",
        "ttft_after",
        "simulated_itl_after",
    }


def test_reasons_are_words_with_counts() -> None:
    late = Attainment(good=1, total=79, n=79)
    (reason,) = judge(replace(GOOD, real_ttft_after=late)).reasons
    assert reason == (
        "real part: 1 of 79 requests got their first token in time after tuning; 95% wanted"
    )
