"""The trial's last line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from e2e.trial.figures import Share
from e2e.trial.verdict import judge
from e2e.verdict import ExitCode
from tests.e2e.trial.making import FIGURES, outcome, part

FAR = replace(FIGURES, ttft=Share(80, 100))
LINE = (
    "e2e: ok requests=100 lost=0 lost_on_killed_engine=1 refused=2 ttft=95.0/95.0 itl=99.0/99.0 "
    "goodput=94.0/94.0 replica_hours=0.500/0.500 replicas=2-5 cold_start_s=13 mended=1 "
    "converge_s=4 host_cpu=0.40 outside_cpu=0.01"
)
BY_PROMETHEUS = (
    " prometheus_ttft=95.0/95.0 prometheus_itl=99.0/99.0 prometheus_goodput=94.0/94.0 "
    "prometheus_replica_hours=0.500/0.500 prometheus_replicas=2-5"
)


@pytest.mark.parametrize(
    ("changes", "line"), [({}, LINE), ({"by_prometheus": part()}, LINE + BY_PROMETHEUS)]
)
def test_a_good_run_names_its_figures(changes: dict[str, Any], line: str) -> None:
    verdict = judge(outcome(**changes))
    assert (verdict.code, verdict.reasons) == (ExitCode.OK, ())
    assert verdict.line == line


@pytest.mark.parametrize(
    ("changes", "word", "reason"),
    [
        ({"direct": part(host_cpu=0.71)}, "void", "direct: the machine was 71% busy"),
        ({"direct": part(outside_cpu=0.11)}, "void", "direct: processes outside the run used 11%"),
        ({"direct": part(lag_ms=101.0)}, "void", "direct: load was sent 101 ms late"),
        ({"by_prometheus": part(host_cpu=0.8)}, "void", "by Prometheus: the machine was 80%"),
        ({"lost": ("lost: request 3",)}, "short", "lost: request 3"),
        ({"refused_beside_faults": 2}, "short", "2 requests were refused"),
        ({"requests": 0}, "short", "no request was sent"),
        ({"silences": ("engine: no reply",)}, "short", "engine: no reply"),
        ({"converge_s": None}, "short", "the fleet did not come back"),
        ({"unmended": ("metrics hung: why",)}, "short", "metrics hung: why"),
        ({"direct": part(FAR)}, "short", "direct: TTFT attainment lies -15.0"),
        ({"by_prometheus": part(FAR)}, "short", "by Prometheus: TTFT attainment lies -15.0"),
    ],
)
def test_what_is_wrong_is_said(changes: dict[str, Any], word: str, reason: str) -> None:
    verdict = judge(outcome(**changes))
    assert verdict.line.startswith(f"e2e: {word} ")
    assert verdict.code.name.lower() == word
    assert [text for text in verdict.reasons if text.startswith(reason)]


def test_a_disturbed_run_is_void_whatever_else_it_shows() -> None:
    verdict = judge(outcome(direct=part(host_cpu=0.9), lost=("lost: request 3",)))
    assert verdict.code is ExitCode.VOID
    assert len(verdict.reasons) == 2


def test_lost_requests_are_counted_though_not_all_are_shown() -> None:
    verdict = judge(outcome(lost=tuple(f"lost: request {n}" for n in range(50))))
    assert " lost=50 " in verdict.line
    assert len(verdict.reasons) == 10
