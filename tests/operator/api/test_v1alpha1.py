"""Models against the server: same defaults, same words, nothing lost on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from paceline_operator.api.choice import Mode
from paceline_operator.api.v1alpha1 import (
    API_VERSION,
    MAX_DECISIONS,
    MAX_WINDOW_SECONDS,
    BudgetStatus,
    Condition,
    DecisionStatus,
    ExplainedDecision,
    InferenceServiceSpec,
    InferenceServiceStatus,
    Scaling,
    Slo,
    SloMetric,
    SloStatus,
    Summary,
)
from paceline_operator.autopilot.vocabulary.policy import policy_from_spec
from paceline_operator.autopilot.vocabulary.slices import HISTORY_S
from tests.support.fleet_api import COLLECTION, FleetApi, inference_service
from tests.support.rest import MERGE

ACCEPT = sorted((Path(__file__).parent / "manifests/accept").glob("*.yaml"))
SIMULATED = {"engine": {"device": {"type": "Simulated"}}}


def dumped(spec: dict[str, Any]) -> dict[str, Any]:
    parsed = InferenceServiceSpec.model_validate(spec)
    return parsed.model_dump(mode="json", by_alias=True)


@pytest.mark.apiserver
@pytest.mark.parametrize("path", ACCEPT, ids=lambda path: path.stem)
def test_what_the_server_stores_means_what_was_written(fleets: FleetApi, path: Path) -> None:
    """Stored defaults are the models' own, so an object reads the same with and without them."""
    manifest = yaml.safe_load(path.read_text())
    reply = fleets.validate(manifest)
    assert reply.status == 201, reply.message
    assert dumped(reply.body["spec"]) == dumped(manifest["spec"])


@pytest.mark.apiserver
def test_defaults_that_must_not_change_later_are_stored(fleets: FleetApi) -> None:
    slo = {"name": "a", "metric": "TTFT", "targetMs": 1}
    reply = fleets.validate(inference_service("a", {**SIMULATED, "slos": [slo]}))
    assert reply.status == 201, reply.message
    assert reply.body["spec"] == {
        "engine": {
            "runtime": "Paceline",
            "device": {"type": "Simulated"},
            "maxNumSeqs": 64,
            "batchTokens": {"max": 2048},
        },
        "replicas": 1,
        "routing": {"mode": "Proxy"},
        "slos": [{**slo, "tier": "interactive", "percentile": 95, "windowSeconds": 60}],
    }


def test_no_window_is_longer_than_measurements_are_kept() -> None:
    assert MAX_WINDOW_SECONDS == HISTORY_S


@pytest.mark.parametrize(("stored", "read"), [(60, 60), (300, 300), (3600, 300)])
def test_a_window_that_was_admitted_once_is_read_as_the_longest(stored: int, read: int) -> None:
    slo = {"name": "ttft", "metric": "TTFT", "targetMs": 500, "windowSeconds": stored}
    assert Slo.model_validate(slo).window_seconds == read


def test_defaults_are_those_the_autopilot_reads() -> None:
    policy = policy_from_spec(InferenceServiceSpec())
    assert policy.max_num_seqs == 64
    assert policy.batch_initial == policy.batch_max == 2048


@pytest.mark.parametrize(
    ("scaling", "wanted"),
    [
        (Scaling(), Mode.RECOMMEND),
        (Scaling(max_replicas=3), Mode.AUTO),
        (Scaling(max_replicas=3, mode=Mode.OFF), Mode.OFF),
    ],
)
def test_scaling_is_auto_where_it_has_a_limit(scaling: Scaling, wanted: Mode) -> None:
    assert scaling.effective_mode is wanted


def test_objects_of_a_newer_version_are_read() -> None:
    spec = InferenceServiceSpec.model_validate({**SIMULATED, "shiny": {"new": 1}})
    assert spec == InferenceServiceSpec.model_validate(SIMULATED)


def test_parts_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        InferenceServiceSpec().replicas = 3  # type: ignore[misc]  # the mistake under test


def full_status() -> InferenceServiceStatus:
    now = "2026-01-01T00:00:00Z"
    decision = DecisionStatus(
        time=now, knob="budget", action="Lower", reason="ItlAboveTarget", guard="Floor", message="m"
    )
    return InferenceServiceStatus(
        observed_generation=1,
        replicas=3,
        ready_replicas=2,
        desired_replicas=3,
        selector="app=a",
        summary=Summary(replicas="2/3", budget="256", ttft="432/500ms", itl="41/50ms"),
        budget=BudgetStatus(
            revision=2**53, desired=256, effective=256, running_seqs=16, acknowledged=2, total=3
        ),
        slos=(
            SloStatus(
                name="a",
                metric=SloMetric.TTFT,
                target_ms=500,
                attainment_percent=97.5,
                measured_ms=432.0,
                samples=120,
                measured_at=now,
            ),
        ),
        model={"decode": {"a": 9.8}},
        last_decision=ExplainedDecision(**dict(decision), inputs={"offeredRps": 1.5}),
        decisions=(decision,) * MAX_DECISIONS,
        conditions=(
            Condition(
                type="Ready",
                status="True",
                reason="Serving",
                observed_generation=1,
                last_transition_time=now,
            ),
        ),
        memory={"window": [1, 2, 3], "nested": {"a": None}},
    )


@pytest.mark.apiserver
def test_a_full_status_is_stored_as_written_and_read_back(fleets: FleetApi) -> None:
    assert fleets.create(inference_service("full", SIMULATED)).status == 201
    status = full_status().model_dump(mode="json", by_alias=True, exclude_none=True)
    path = f"{COLLECTION}/full/status?fieldValidation=Strict"
    reply = fleets.rest.call("PATCH", path, {"status": status}, MERGE)
    assert reply.status == 200, reply.message
    read = InferenceServiceStatus.model_validate(reply.body["status"])
    fleets.delete("full")
    assert read.memory is not None
    assert read == full_status().model_copy(update={"memory": read.memory})


@pytest.mark.apiserver
def test_status_cannot_be_written_through_the_object(fleets: FleetApi) -> None:
    body = inference_service("sneaky", SIMULATED)
    reply = fleets.rest.call("POST", COLLECTION, {**body, "status": {"readyReplicas": 9}})
    fleets.delete("sneaky")
    assert reply.body["apiVersion"] == API_VERSION
    assert "status" not in reply.body
