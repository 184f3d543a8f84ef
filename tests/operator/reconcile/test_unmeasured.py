"""Why pods are not measured, told once."""

from __future__ import annotations

import logging

import pytest

from paceline_operator.autopilot.vocabulary.fleet import DataClass
from paceline_operator.domain.pods import PodView
from paceline_operator.metrics import PodReading
from paceline_operator.reconcile.unmeasured import MOST_CHARACTERS, Unmeasured, cause
from tests.support.fleet import pod

NAMES = ("a", "b", "c")


def pods(ready_since_s: float = 0.0) -> tuple[PodView, ...]:
    return tuple(pod(name, ready_since_s=ready_since_s) for name in NAMES)


def readings(*errors: str) -> dict[str, PodReading]:
    return {
        each.uid: PodReading(data=DataClass.STALE, error=error)
        for each, error in zip(pods(), errors, strict=True)
    }


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        (("", "", ""), ""),
        (("x: hung",) * 3, "3 of 3 pods are not measured: x: hung"),
        (("", "x: hung", ""), "1 of 3 pods are not measured (b): x: hung"),
        (("hung", "hung", ""), "2 of 3 pods are not measured (a and others): hung"),
        (
            ("one", "the\nother", "the\nother"),
            "3 of 3 pods are not measured (b and others): the other",
        ),
    ],
)
def test_the_most_frequent_cause_in_one_line(errors: tuple[str, ...], said: str) -> None:
    assert cause(pods(), readings(*errors), 10.0) == said


def test_pods_that_have_just_become_ready_do_not_count() -> None:
    assert cause(pods(ready_since_s=11.0), readings(*["refused"] * 3), 10.0) == ""


def test_a_long_answer_of_a_server_is_cut() -> None:
    assert len(cause(pods(), readings(*["x" * 9999] * 3), 10.0)) == MOST_CHARACTERS


def test_one_line_for_all_objects_that_it_concerns(caplog: pytest.LogCaptureFixture) -> None:
    told = Unmeasured()
    with caplog.at_level(logging.INFO):
        for name in NAMES:
            for _ in range(2):
                told.note(("d", name), "2 of 2 pods are not measured: the server hangs")
                told.note(("d", name), "1 of 2 pods are not measured (x): the server hangs")
        for name in NAMES:
            told.note(("d", name), "")
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("WARNING", "d/a: 2 of 2 pods are not measured: the server hangs"),
        ("INFO", "d/c: measured again, after: 2 of 2 pods are not measured: the server hangs"),
    ]
