from __future__ import annotations

from typing import Any

import pytest

from paceline_operator.api.choice import RolloutStrategy
from paceline_operator.domain import rollout
from paceline_operator.domain.pods import Problem
from tests.support.fleet import deployment_status, spec

SURGE, REPLACE, AUTO = RolloutStrategy.SURGE, RolloutStrategy.REPLACE, RolloutStrategy.AUTO


@pytest.mark.parametrize(
    ("written", "device", "blocked", "current", "found"),
    [
        (SURGE, "CUDA", True, REPLACE, SURGE),
        (REPLACE, "CPU", False, SURGE, REPLACE),
        (AUTO, "CPU", False, None, SURGE),
        (AUTO, "CUDA", False, None, REPLACE),
        (AUTO, "CPU", True, SURGE, REPLACE),
        (AUTO, "CPU", False, REPLACE, REPLACE),
    ],
    ids=["as written", "as written too", "room", "gpu", "no room", "stays"],
)
def test_resolve(
    written: RolloutStrategy,
    device: str,
    blocked: bool,
    current: RolloutStrategy | None,
    found: RolloutStrategy,
) -> None:
    given = spec(
        rollout={"strategy": written}, model={"uri": "pvc://c/m"},
        engine={"device": {"type": device}},
    )  # fmt: skip
    assert rollout.resolve(given, surge_blocked=blocked, current=current) is found


@pytest.mark.behaviour(
    "of a rollout strategy only what the cluster taught is remembered: what the spec said before "
    "does not outlive the spec",
    report="changed from Replace to Auto, a fleet was replaced without surge for ever",
)
@pytest.mark.parametrize(
    ("written", "device", "blocked", "current", "found"),
    [
        (REPLACE, "CPU", False, None, None),
        (SURGE, "CPU", True, REPLACE, None),
        (AUTO, "CUDA", False, None, None),
        (AUTO, "CPU", False, None, SURGE),
        (AUTO, "CPU", True, SURGE, REPLACE),
        (AUTO, "CPU", False, REPLACE, REPLACE),
    ],
    ids=["as written", "as written too", "gpu", "room", "no room", "stays"],
)
def test_what_is_kept(
    written: RolloutStrategy,
    device: str,
    blocked: bool,
    current: RolloutStrategy | None,
    found: RolloutStrategy | None,
) -> None:
    given = spec(
        rollout={"strategy": written}, model={"uri": "pvc://c/m"},
        engine={"device": {"type": device}},
    )  # fmt: skip
    assert rollout.kept(given, surge_blocked=blocked, current=current) is found


def deployment(**status: Any) -> dict[str, Any]:
    return {"metadata": {"generation": 2}, "status": {**deployment_status(2, 2), **status}}


@pytest.mark.parametrize(
    ("live", "rolling"),
    [
        (None, True),
        ({"metadata": {"generation": 1}}, True),
        (deployment(), False),
        (deployment(observedGeneration=1), True),
        (deployment(updatedReplicas=1), True),
        (deployment(replicas=1, updatedReplicas=1), False),
        (deployment(readyReplicas=0), False),
    ],
    ids=["none", "unseen", "done", "not observed", "old pods", "scaling out", "unready"],
)
def test_in_progress(live: dict[str, Any] | None, rolling: bool) -> None:
    assert rollout.in_progress(live) is rolling


@pytest.mark.parametrize(
    ("live", "complete"),
    [
        (None, False),
        ({"metadata": {"generation": 1}}, False),
        (deployment(), True),
        (deployment(readyReplicas=0), True),
        (deployment(observedGeneration=1), False),
        (deployment(updatedReplicas=1), False),
        (deployment(conditions=[{"type": "Progressing", "reason": "ReplicaSetUpdated"}]), False),
        (deployment(conditions=[]), False),
    ],
    ids=["none", "unseen", "done", "unready", "not observed", "old pods", "under way", "unsaid"],
)
def test_is_complete(live: dict[str, Any] | None, complete: bool) -> None:
    assert rollout.is_complete(live) is complete


def test_a_deployment_that_gave_up_is_stuck() -> None:
    conditions = [{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}]
    assert rollout.is_stuck(deployment(conditions=conditions))
    assert not rollout.is_stuck(deployment())


@pytest.mark.parametrize(
    ("live", "replacing"),
    [
        (None, False),
        (deployment(observedGeneration=1), False),
        (deployment(updatedReplicas=1), True),
        (deployment(), False),
    ],
    ids=["none", "not observed", "old pods", "done"],
)
def test_pods_of_another_template_are_known(live: dict[str, Any] | None, replacing: bool) -> None:
    assert rollout.is_replacing(live) is replacing


@pytest.mark.behaviour(
    "pods that the API server takes none of are told of, with what it says",
    report="a quota or a policy left a service at 0 of 1 pods, and nothing said why",
)
def test_what_keeps_pods_from_being_made() -> None:
    said = 'pods "chat-7d-x" is forbidden: exceeded quota: team, requested: cpu=1'
    failing = {"type": "ReplicaFailure", "reason": "FailedCreate", "message": said}
    found = rollout.not_made(deployment(conditions=[{**failing, "status": "True"}]))
    assert found == Problem("FailedCreate", said)
    assert rollout.not_made(deployment(conditions=[{**failing, "status": "False"}])) is None
    kept = {**failing, "status": "True", "reason": "FailedDelete", "message": "may not delete"}
    assert rollout.not_made(deployment(conditions=[kept])) is None
    assert rollout.not_made(deployment()) is None
    assert rollout.not_made(None) is None
