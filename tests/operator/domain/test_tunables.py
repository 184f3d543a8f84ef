from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.api.v1alpha1 import Slo, SloMetric
from paceline_operator.autopilot.vocabulary.fleet import PodTunables, Tunables
from paceline_operator.domain import tunables
from paceline_operator.domain.tunables import Agreed
from tests.support.fleet import spec

SLOS = (Slo(name="ttft", metric=SloMetric.TTFT, target_ms=500),)
ANSWER: dict[str, Any] = {
    "revision": 7,
    "requested": {"maxNumBatchedTokens": 512, "maxNumRunningSeqs": 32},
    "effective": {"maxNumBatchedTokens": 496, "maxNumRunningSeqs": 31},
    "floor": {"maxNumBatchedTokens": 48, "maxNumRunningSeqs": 1},
    "ceiling": {"maxNumBatchedTokens": 2048, "maxNumRunningSeqs": 64},
    "step": {"maxNumBatchedTokens": 16, "maxNumRunningSeqs": 1},
}


@given(
    st.integers(0, 2**63 - 1),
    st.integers(16, 10**6),
    st.integers(1, 4096),
    st.none() | st.floats(0.1, 1e6),
)
def test_what_engines_read_at_start_can_be_read_back(
    revision: int, tokens: int, seqs: int, target_ms: float | None
) -> None:
    knobs = Tunables(
        max_num_batched_tokens=tokens, max_num_running_seqs=seqs, step_time_target_ms=target_ms
    )
    agreed = Agreed(revision, knobs, SLOS)
    assert tunables.parse(tunables.text(agreed)) == agreed


@pytest.mark.parametrize("target", ["0", "-1", "NaN", "Infinity", '"fast"', "[]"])
def test_a_step_time_that_no_engine_takes_is_not_ours(target: str) -> None:
    knobs = '"revision": 1, "maxNumBatchedTokens": 64, "maxNumRunningSeqs": 8'
    assert tunables.parse(f"{{{knobs}}}") is not None
    assert tunables.parse(f'{{{knobs}, "stepTimeTargetMs": {target}}}') is None


def test_body_is_the_wire_form() -> None:
    knobs = Tunables(max_num_batched_tokens=512, max_num_running_seqs=32, step_time_target_ms=40.5)
    assert json.loads(tunables.text(Agreed(7, knobs, SLOS))) == {
        "revision": 7,
        "maxNumBatchedTokens": 512,
        "maxNumRunningSeqs": 32,
        "stepTimeTargetMs": 40.5,
        "slos": [
            {
                "name": "ttft", "tier": "interactive", "metric": "TTFT", "percentile": 95,
                "targetMs": 500,
            }
        ],
    }  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [
        None, "", "{", "[]", '{"revision": 1}', '{"revision": "x"}', '{"revision": Infinity}',
        pytest.param("[" * 100_000, id="nested too deep"),
    ],
)  # fmt: skip
def test_what_is_not_ours_is_none(content: str | None) -> None:
    assert tunables.parse(content) is None


@pytest.mark.parametrize(
    ("engine", "budget"),
    [
        ({}, 2048),
        ({"batchTokens": {"max": 1024}}, 1024),
        ({"batchTokens": {"max": 1024, "initial": 256}}, 256),
        ({"batchTokens": {"max": 1024, "initial": 16}, "maxNumSeqs": 64}, 80),
        ({"batchTokens": {"max": 64, "initial": 16}, "maxNumSeqs": 15}, 16),
    ],
    ids=["default", "max where initial is absent", "initial", "raised to the floor", "at it"],
)
def test_initial(engine: dict[str, object], budget: int) -> None:
    given_spec = spec(engine={"device": {"type": "Simulated"}, **engine})
    assert tunables.initial(given_spec).knobs.max_num_batched_tokens == budget


def test_values_agreed_before_stay_inside_ceilings_lowered_since() -> None:
    knobs = Tunables(max_num_batched_tokens=2048, max_num_running_seqs=64)
    lowered = spec(
        engine={"device": {"type": "Simulated"}, "maxNumSeqs": 8, "batchTokens": {"max": 512}}
    )
    assert tunables.fitted(knobs, lowered, squeezed=False) == Tunables(
        max_num_batched_tokens=512, max_num_running_seqs=8
    )


def test_the_step_time_stays_with_the_others_and_goes_with_tuning() -> None:
    knobs = Tunables(max_num_batched_tokens=512, max_num_running_seqs=64, step_time_target_ms=40.0)
    assert tunables.fitted(knobs, spec(), squeezed=False).step_time_target_ms == 40.0
    off = spec(tuning={"mode": "Off"})
    assert tunables.fitted(knobs, off, squeezed=False).step_time_target_ms is None


def test_report_says_what_is_in_force() -> None:
    report = tunables.read_report(ANSWER)
    assert (report.revision, report.effective, report.running_seqs) == (7, 496, 31)
    assert (report.floor, report.ceiling, report.step) == (48, 2048, 16)
    assert report.step_time_target_ms is None
    paced = {**ANSWER, "effective": {**ANSWER["effective"], "stepTimeTargetMs": 33}}
    assert tunables.read_report(paced).step_time_target_ms == 33.0


def test_a_report_of_another_form_is_an_error() -> None:
    with pytest.raises(KeyError):
        tunables.read_report({"revision": 1})


def test_the_mark_of_objectives_ignores_what_engines_do_not_count() -> None:
    wider = (SLOS[0].model_copy(update={"window_seconds": 300}),)
    other = (SLOS[0].model_copy(update={"target_ms": 400}),)
    assert tunables.objectives_digest(SLOS) == tunables.objectives_digest(wider)
    assert tunables.objectives_digest(SLOS) != tunables.objectives_digest(other)


@pytest.mark.parametrize(
    ("wanted_ms", "kept_ms", "expected"),
    [(None, None, True), (40.0, 40.0, True), (40.0, None, False), (None, 40.0, False)],
)
def test_a_step_time_is_one_of_the_values(
    wanted_ms: float | None, kept_ms: float | None, *, expected: bool
) -> None:
    knobs = Tunables(
        max_num_batched_tokens=512, max_num_running_seqs=31, step_time_target_ms=wanted_ms
    )
    report = replace(tunables.read_report(ANSWER), effective=512, step_time_target_ms=kept_ms)
    assert tunables.runs_with(report, Agreed(7, knobs)) is expected


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, True),
        ({"revision": 6}, False),
        ({"effective": 2048}, False),
        ({"running_seqs": 64}, False),
        ({"effective": 500, "step": 16}, True),
        ({"effective": 256, "ceiling": 256}, True),
        ({"effective": 640, "floor": 640}, True),
        ({"running_seqs": 16, "running_ceiling": 16}, True),
    ],
    ids=[
        "as agreed", "older revision", "old budget under the new revision", "old running cap",
        "rounded to its step", "at its ceiling", "at its floor", "at its own running ceiling",
    ],
)  # fmt: skip
def test_an_engine_runs_with_values_only_where_it_reports_them(
    more: dict[str, int], expected: bool
) -> None:
    given: dict[str, int] = {
        "effective": 512, "floor": 48, "ceiling": 2048, "step": 16, "running_seqs": 32,
        "running_ceiling": 64, "revision": 7, **more,
    }  # fmt: skip
    agreed = Agreed(7, Tunables(max_num_batched_tokens=512, max_num_running_seqs=32))
    assert tunables.runs_with(PodTunables(**given), agreed) is expected
