"""From two parts as they were seen to the figures of the last line."""

from dataclasses import replace
from pathlib import Path

import pytest

from e2e.demo.engines import StepCounts
from e2e.demo.fleet import FleetPart
from e2e.demo.manifest import Manifest, read
from e2e.demo.real import RealPart, Span
from e2e.demo.story import outcome_of, report_parts
from e2e.demo.timeline import Decision, Sample
from e2e.load.record import Outcome, Record

MANIFEST = Manifest(
    path=Path("m.yaml"),
    name="m",
    model="m",
    targets_ms={"first": 1000, "cadence": 100},
    ttft="first",
    itl="cadence",
)


def record(number: int, sent_s: float, ttft_ms: float = 100.0, gap_ms: float = 50.0) -> Record:
    return Record(
        id=number,
        phase="p",
        kind="chat",
        streamed=True,
        scheduled_s=sent_s,
        sent_s=sent_s,
        ended_s=sent_s + 1.0,
        ttft_ms=ttft_ms,
        gaps_ms=(gap_ms,) * 3,
        prompt_tokens=10,
        tokens=4,
        status=200,
        outcome=Outcome.OK,
    )


def move(at_s: float, knob: str) -> Decision:
    return Decision(at_s=at_s, knob=knob, action="Raise", reason="R", message="m")


REAL = RealPart(
    manifest=MANIFEST,
    records=[record(n, n, gap_ms=200.0 if n < 50 else 50.0) for n in range(100)],
    samples=[Sample(at_s=float(n), budget=100, replicas=2, ready=2) for n in range(100)],
    decisions=[move(52.0, "budget")],
    switched_s=50.0,
    moved_s=52.0,
    before=Span(from_s=0.0, to_s=50.0, steps=StepCounts(all_steps=300, decoding=250)),
    after=Span(from_s=52.0, to_s=100.0, steps=StepCounts(all_steps=300, decoding=250)),
    outside_cpu=0.0,
    pods=2,
    scaled_by=1.0,
)
FLEET = FleetPart(
    manifest=MANIFEST,
    records=[
        record(n, n / 4, ttft_ms=5000.0 if 40 <= n / 4 < 70 else 100.0) for n in range(4 * 290)
    ],
    samples=[
        Sample(at_s=float(n), replicas=2 + 2 * (60 <= n < 250), ready=2 + 2 * (60 <= n < 250))
        for n in range(290)
    ],
    decisions=[move(38.0, "budget"), move(44.0, "budget"), move(45.0, "replicas")],
    started_s=0.0,
    stepped_s=40.0,
    fell_s=200.0,
    ended_s=290.0,
    cold_start_s=12.0,
    first_serving_s=58.0,
    host_cpu=0.4,
    lag_ms=2.0,
)


def test_a_run_is_told_as_it_was() -> None:
    told = outcome_of(REAL, FLEET)
    assert told.requests == 100 + 1160
    assert told.lost == 0
    assert told.itl_before.share == pytest.approx(0.0, abs=0.02)
    assert told.itl_after.share == 1.0
    assert told.itl_after.n == 48 * 3
    assert told.recovery_s == pytest.approx(30.0, abs=2.0)
    assert (told.first_move_s, told.first_serving_s) == (4.0, 18.0)
    assert (told.replicas_peak, told.replicas_end) == (4, 2)
    assert told.replaced_pods == 0


def test_after_runs_from_the_limit_of_recovery_to_the_end_of_the_load() -> None:
    told = outcome_of(REAL, FLEET)
    from_s = 40.0 + 2.5 * 12.0 + 60.0
    assert told.ttft_after.n == sum(from_s <= r.sent_s < 290.0 for r in FLEET.records)
    assert told.ttft_after.share == 1.0


def test_a_pod_that_took_anothers_place_is_counted() -> None:
    assert outcome_of(replace(REAL, pods=3), FLEET).replaced_pods == 1


def test_without_a_move_nothing_is_claimed_for_the_time_after() -> None:
    told = outcome_of(replace(REAL, after=None, moved_s=None), FLEET)
    assert not told.budget_moved
    assert told.itl_after.n == 0
    assert told.steps_after == 0


def test_only_the_answers_that_came_count_as_not_lost() -> None:
    broken = [replace(REAL.records[0], outcome=o) for o in (Outcome.LOST, Outcome.CANCELLED)]
    refused = replace(REAL.records[0], outcome=Outcome.REFUSED)
    told = outcome_of(replace(REAL, records=[*REAL.records, *broken, refused]), FLEET)
    assert told.lost == 2


def test_the_report_names_each_phase_of_both_parts() -> None:
    real, fleet = report_parts(REAL, FLEET)
    assert [row.name.split(":")[0] for row in real.phases] == ["before", "after"]
    assert len(fleet.phases) == 4
    assert fleet.phases[1].ttft_p95 == "5000 ms"


@pytest.mark.parametrize("name", ["smollm2", "fleet-simulated"])
def test_the_samples_have_what_the_demo_needs(name: str) -> None:
    sample = read(name)
    assert sample.path.exists()
    assert 0 < sample.itl_target_ms < sample.ttft_target_ms
