from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline_operator.api.choice import ConditionStatus, SloMetric
from paceline_operator.api.conditions import Verdict
from paceline_operator.autopilot.vocabulary.decision import (
    Feasibility,
    Reason,
    ScalingLimit,
    SloMeasurement,
    Tick,
)
from paceline_operator.autopilot.vocabulary.fleet import DataClass
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.domain import verdicts
from paceline_operator.domain.pods import Problem, read_pod
from paceline_operator.domain.verdicts import Sight
from tests.support.fleet import NOW_S, pod, pod_object

TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
A = pod("a", template_hash="t")
B = pod("b", template_hash="t")
STARTING = pod("c", ready=False, template_hash="t")
CRASHING = replace(STARTING, problem=Problem("CrashLoop", "exit code 2"))
ROOMLESS = replace(STARTING, problem=Problem("Unschedulable", "no node has room"))
NOT_MADE = Problem("FailedCreate", 'pods "chat-x" is forbidden: exceeded quota')
TICK = Tick(decisions=(), actions=(), memory=Memory())


def sight(**fields: Any) -> Sight:
    return Sight(**{"template_hash": "t", **fields})


READY: list[tuple[str, Sight, tuple[ConditionStatus, str]]] = [
    ("no pods", sight(wanted=2), (FALSE, "PodsNotReady")),
    ("all", sight(wanted=2, pods=(A, B)), (TRUE, "PodsReady")),
    ("one of two at first", sight(wanted=2, pods=(A, STARTING)), (FALSE, "PodsNotReady")),
    (
        "a scale-out does not make it unready",
        sight(wanted=3, pods=(A, B, STARTING), was_ready=True, ready_before=2),
        (TRUE, "PodsReady"),
    ),
    (
        "a lost pod does",
        sight(wanted=2, pods=(A, STARTING), was_ready=True, ready_before=2),
        (FALSE, "PodsNotReady"),
    ),
    (
        "a crash loop does, whatever else serves",
        sight(wanted=3, pods=(A, B, CRASHING), was_ready=True, ready_before=2),
        (FALSE, "CrashLoop"),
    ),
    (
        "one without room does not while enough serve",
        sight(wanted=3, pods=(A, B, ROOMLESS), was_ready=True, ready_before=2),
        (TRUE, "PodsReady"),
    ),
    (
        "one without room does while too few serve",
        sight(wanted=2, pods=(A, ROOMLESS)),
        (FALSE, "Unschedulable"),
    ),
    ("pods that are not made", sight(wanted=1, not_made=NOT_MADE), (FALSE, "FailedCreate")),
    (
        "more that are not made while enough serve",
        sight(wanted=3, pods=(A, B), was_ready=True, ready_before=2, not_made=NOT_MADE),
        (TRUE, "PodsReady"),
    ),
    ("zero wanted", sight(wanted=0), (TRUE, "ScaledToZero")),
    ("proxy down", sight(wanted=1, pods=(A,), proxy_ready=False), (FALSE, "ProxyNotReady")),
    (
        "proxy's image missing",
        sight(
            wanted=1, pods=(A,), proxy_ready=False,
            proxy_problem=Problem("ErrImagePull", "no such image"),
        ),
        (FALSE, "ErrImagePull"),
    ),
    (
        "a proxy in a loop that serves for a moment",
        sight(wanted=1, pods=(A,), proxy_problem=Problem("CrashLoop", "exit code 1")),
        (FALSE, "CrashLoop"),
    ),
    (
        "one proxy more without room",
        sight(wanted=1, pods=(A,), proxy_problem=Problem("Unschedulable", "no room")),
        (TRUE, "PodsReady"),
    ),
    (
        "an only proxy without room",
        sight(wanted=1, pods=(A,), proxy_ready=False,
              proxy_problem=Problem("Unschedulable", "no room")),
        (FALSE, "Unschedulable"),
    ),
    (
        "the Service leads past a proxy that is awaited",
        sight(wanted=1, pods=(A,), proxy_ready=False, proxy_awaited=True),
        (TRUE, "PodsReady"),
    ),
    (
        "refused, and serves as it did",
        sight(wanted=1, pods=(A,), template_hash="", refused=Problem("NameTaken", "x")),
        (TRUE, "PodsReady"),
    ),
    ("old template only", sight(wanted=1, pods=(replace(A, template_hash="o"),)),
     (FALSE, "RollingOut")),
    ("refused, nothing serves", sight(wanted=1, refused=Problem("UnsupportedModel", "x")),
     (FALSE, "UnsupportedModel")),
    ("deleted pods do not serve", sight(wanted=1, pods=(replace(A, deleting=True),)),
     (FALSE, "PodsNotReady")),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "found"), [c[1:] for c in READY], ids=[c[0] for c in READY])
def test_ready(seen: Sight, found: tuple[ConditionStatus, str]) -> None:
    verdict = verdicts.ready(seen)
    assert (verdict.status, verdict.reason) == found


def test_the_cause_of_a_crash_loop_is_in_the_message() -> None:
    verdict = verdicts.ready(sight(wanted=2, pods=(A, CRASHING)))
    assert verdict.message == "1 of 2 pods: exit code 2"


def test_a_pod_that_is_late_is_told_of() -> None:
    late = replace(STARTING, hint="c has no container yet: Pulling image")
    verdict = verdicts.ready(sight(wanted=1, pods=(late,)))
    assert verdict.message == "0 of 1 pods are ready; c has no container yet: Pulling image"


RECONCILING: list[tuple[str, Sight, str | None]] = [
    ("settled", sight(wanted=1, pods=(A,)), None),
    ("starting", sight(wanted=2, pods=(A, STARTING)), "PodsStarting"),
    ("rolling", sight(wanted=1, pods=(A,), rolling_out=True), "RollingOut"),
    ("draining", sight(wanted=1, pods=(A, B), waiting="pods drain"), "ScalingIn"),
    ("leaving", sight(wanted=1, pods=(A, replace(B, deleting=True))), "PodsLeaving"),
    ("proxy", sight(wanted=1, pods=(A,), proxy_ready=False), "ProxyStarting"),
    ("a proxy without engines", sight(wanted=0, proxy_ready=False), None),
]


@pytest.mark.parametrize(
    ("seen", "reason"), [c[1:] for c in RECONCILING], ids=[c[0] for c in RECONCILING]
)
def test_reconciling(seen: Sight, reason: str | None) -> None:
    verdict = verdicts.reconciling(seen)
    assert (None if verdict is None else verdict.reason) == reason


def test_stalled_needs_a_person() -> None:
    assert verdicts.stalled(sight(wanted=1)) is None
    refused = verdicts.stalled(sight(refused=Problem("UnsupportedModel", "hf:// is not")))
    assert refused == Verdict(TRUE, "UnsupportedModel", "hf:// is not")
    assert verdicts.stalled(sight(stuck=True, pods=(STARTING,))) is None
    late = verdicts.stalled(sight(stuck=True, pods=(CRASHING,)))
    assert late == Verdict(TRUE, "ProgressDeadlineExceeded", "1 of 1 pods: exit code 2")


LOOPING = replace(CRASHING, looping=True)

STALLED: list[tuple[str, Sight, str | None]] = [
    ("a first crash", sight(wanted=1, pods=(CRASHING,), rolled_out=True), None),
    ("a loop", sight(wanted=2, pods=(A, LOOPING), rolled_out=True), "CrashLoop"),
    (
        "a loop that is ready for a moment",
        sight(wanted=1, pods=(replace(LOOPING, ready=True),), rolled_out=True),
        "CrashLoop",
    ),
    ("a rollout has its own deadline", sight(wanted=1, pods=(LOOPING,)), None),
    (
        "that passed",
        sight(wanted=1, pods=(LOOPING,), stuck=True),
        "ProgressDeadlineExceeded",
    ),
    (
        "a pod in a loop that leaves",
        sight(wanted=1, pods=(A, replace(LOOPING, deleting=True)), rolled_out=True),
        None,
    ),
    ("over", sight(wanted=1, pods=(A,), rolled_out=True), None),
    (
        "the proxy",
        sight(
            wanted=1, pods=(A,), proxy_ready=False, proxy_stuck=True,
            proxy_problem=Problem("CrashLoop", "exit code 1"),
        ),
        "CrashLoop",
    ),
    (
        "a proxy that kept ending and holds now",
        sight(wanted=1, pods=(A,), proxy_stuck=True),
        None,
    ),
    (
        "one proxy more without room",
        sight(wanted=1, pods=(A,), proxy_stuck=True,
              proxy_problem=Problem("Unschedulable", "no room")),
        None,
    ),
    ("a proxy that is merely late", sight(wanted=1, proxy_ready=False, proxy_stuck=True), None),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "reason"), [c[1:] for c in STALLED], ids=[c[0] for c in STALLED])
def test_stalled_by_what_keeps_ending(seen: Sight, reason: str | None) -> None:
    verdict = verdicts.stalled(seen)
    assert (None if verdict is None else verdict.reason) == reason


@pytest.mark.parametrize("stuck", [True, False])
@pytest.mark.parametrize("serves", [True, False])
@pytest.mark.parametrize("reason", ["CrashLoop", "ErrImagePull", "Unschedulable", None])
def test_what_is_stalled_by_its_proxy_is_not_ready(
    reason: str | None, serves: bool, stuck: bool
) -> None:
    problem = None if reason is None else Problem(reason, "x")
    seen = sight(wanted=1, pods=(A,), proxy_ready=serves, proxy_stuck=stuck, proxy_problem=problem)
    stalled, ready = verdicts.stalled(seen), verdicts.ready(seen)
    assert stalled is None or ready.status is FALSE


@pytest.mark.parametrize("rests", [True, False])
def test_a_proxy_at_rest_is_told_of(rests: bool) -> None:
    verdict = verdicts.ready(sight(wanted=1, pods=(A,), proxy_at_rest=rests))
    assert verdict.status is TRUE
    assert verdict.message.endswith("; the proxy is kept at 0 replicas") is rests


def test_a_proxy_that_is_awaited_is_under_way() -> None:
    found = verdicts.reconciling(sight(wanted=1, pods=(A,), proxy_ready=False, proxy_awaited=True))
    assert found is not None
    assert found.reason == "ProxyStarting"
    assert found.message.endswith("until then the Service leads to the engines")


def test_a_crash_loop_is_told_with_its_own_words() -> None:
    """The most frequent problem of a fleet may be another one."""
    pods = (A, ROOMLESS, replace(ROOMLESS, name="d"), LOOPING)
    verdict = verdicts.stalled(sight(wanted=4, pods=pods, rolled_out=True))
    assert verdict == Verdict(TRUE, "CrashLoop", "1 of 4 pods: exit code 2")


def test_a_pod_in_a_loop_that_is_ready_makes_no_fleet_ready() -> None:
    ready = replace(LOOPING, ready=True)
    verdict = verdicts.ready(sight(wanted=2, pods=(A, ready), was_ready=True, ready_before=2))
    assert (verdict.status, verdict.reason) == (FALSE, "CrashLoop")


def test_an_engine_that_runs_again_before_it_ends_again_is_stalled_too() -> None:
    """The deadline is the Deployment's; the cause must be there when it passes."""
    item = pod_object("chat", "c", ready=False)
    (engine,) = item["status"]["containerStatuses"]
    ended = {"exitCode": 2, "message": "paceline-engine: no such file\n"}
    engine |= {"restartCount": 6, "lastState": {"terminated": ended}}
    item["metadata"]["uid"] = "u"
    verdict = verdicts.stalled(sight(stuck=True, wanted=1, pods=(read_pod(item),)))
    assert verdict is not None
    assert verdict.reason == "ProgressDeadlineExceeded"
    assert verdict.message.endswith("exit code 2, paceline-engine: no such file, 6 restarts")


@pytest.mark.parametrize(
    ("data", "status"),
    [(DataClass.FRESH, TRUE), (DataClass.STALE, FALSE), (DataClass.ABSENT, FALSE)],
)
def test_metrics_fresh(data: DataClass, status: ConditionStatus) -> None:
    seen = sight(wanted=1, pods=(A,), tick=replace(TICK, data=data))
    assert verdicts.metrics_fresh(seen).status is status


@pytest.mark.parametrize("data", list(DataClass))
def test_metrics_fresh_says_why_pods_are_not_measured(data: DataClass) -> None:
    seen = sight(wanted=1, pods=(A,), tick=replace(TICK, data=data), unmeasured="it hangs")
    assert verdicts.metrics_fresh(seen).message.endswith("it hangs")


def test_without_pods_there_is_nothing_to_measure() -> None:
    assert verdicts.metrics_fresh(sight(tick=TICK)).status is UNKNOWN


def measured(name: str, met: bool | None) -> SloMeasurement:
    return SloMeasurement(name=name, metric=SloMetric.TTFT, percentile=95, target_ms=100, met=met,
                          samples=50)  # fmt: skip


@pytest.mark.parametrize(
    ("met", "status", "said"),
    [
        ([], UNKNOWN, ""),
        ([True, True], TRUE, ""),
        ([True, False], FALSE, "missed: s1"),
        ([True, None], UNKNOWN, "s1"),
        ([None, False], FALSE, "missed: s1"),
    ],
)
def test_slo_met(met: list[bool | None], status: ConditionStatus, said: str) -> None:
    slo = tuple(measured(f"s{index}", each) for index, each in enumerate(met))
    verdict = verdicts.slo_met(sight(tick=replace(TICK, slo=slo)))
    assert verdict.status is status
    assert said in verdict.message


@pytest.mark.parametrize("met", [True, False, None])
def test_a_window_that_is_not_kept_is_told_of_and_changes_no_verdict(met: bool | None) -> None:
    tick = replace(TICK, slo=(measured("s0", met),))
    plain = verdicts.slo_met(sight(tick=tick))
    told = verdicts.slo_met(sight(tick=tick, shortened=("s0", "s1")))
    assert (told.status, told.reason) == (plain.status, plain.reason)
    assert told.message.startswith(plain.message)
    assert "judged over 300 s" in told.message
    assert "s0, s1" in told.message


@pytest.mark.parametrize(("feasible", "status"), [(True, TRUE), (False, FALSE), (None, UNKNOWN)])
def test_slo_feasible(feasible: bool | None, status: ConditionStatus) -> None:
    tick = replace(TICK, feasibility=Feasibility(feasible=feasible, message="sums"))
    verdict = verdicts.slo_feasible(sight(tick=tick))
    assert (verdict.status, verdict.message) == (status, "sums")


def test_a_manual_floor_is_shown_with_its_end() -> None:
    limit = ScalingLimit(reason=Reason.MANUAL_FLOOR, message="floor of 3", expires_s=NOW_S)
    verdict = verdicts.scaling_limited(sight(tick=replace(TICK, scaling_limit=limit)))
    assert (verdict.status, verdict.reason) == (TRUE, "ManualFloor")
    assert verdict.message == "floor of 3 (until 2027-01-15T08:00:00Z)"


def test_conflict_names_the_writer() -> None:
    verdict = verdicts.conflict(sight(yielded={"replicas": "kubectl"}))
    assert (verdict.status, verdict.reason) == (TRUE, "ForeignWriter")
    assert "replicas is left to kubectl" in verdict.message


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"strayed": ("a", "b")}, "ForeignDrain"),
        ({"strayed": ("a", "b"), "yielded": {"replicas": "kubectl"}}, "ForeignWriter"),
    ],
)
def test_conflict_tells_of_drains_by_someone_else(given: dict[str, Any], reason: str) -> None:
    verdict = verdicts.conflict(sight(**given))
    assert (verdict.status, verdict.reason) == (TRUE, reason)
    assert "drained by someone else lately and taken back into service: a, b" in verdict.message


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "ForeignChange"),
        ({"strayed": ("a",)}, "ForeignChange"),
        ({"yielded": {"replicas": "kubectl"}}, "ForeignWriter"),
    ],
)
def test_conflict_tells_who_changes_children(given: dict[str, Any], reason: str) -> None:
    verdict = verdicts.conflict(sight(contested=("Service chat by argocd",), **given))
    assert (verdict.status, verdict.reason) == (TRUE, reason)
    assert "at most once a minute: Service chat by argocd" in verdict.message


def test_a_drain_that_is_to_be_undone_is_under_way() -> None:
    found = verdicts.reconciling(sight(wanted=2, pods=(A, STARTING), strays=("c",)))
    assert found is not None
    assert found.reason == "UndoingDrain"
    assert found.message.endswith("taken back into service: c")


def test_engines_that_ignore_live_values_are_told_last() -> None:
    found = verdicts.reconciling(sight(wanted=1, pods=(A,), deaf=("a", "b")))
    assert found is not None
    assert found.reason == "TunablesNotTaken"
    assert found.message.endswith("not taken by: a, b")
    starting = verdicts.reconciling(sight(wanted=2, pods=(A, STARTING), deaf=("a",)))
    assert starting is not None
    assert starting.reason == "PodsStarting"


def test_every_condition_has_a_verdict_on_the_first_pass() -> None:
    assert len(verdicts.verdicts(sight())) == 6
