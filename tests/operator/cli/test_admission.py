"""The plug-in refuses what the API server refuses, and takes what it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from paceline_operator.api.crd import FILE_NAME
from paceline_operator.api.rule import VALIDATIONS
from paceline_operator.api.schema import walk
from paceline_operator.api.v1alpha1 import InferenceServiceSpec
from paceline_operator.cli.admission import refusal, without_nulls
from paceline_operator.cli.admission_rules import RULES
from tests.operator.api.test_constraints import ACCEPT, REJECT, expected
from tests.support.fleet_api import FleetApi, inference_service
from tests.support.tree import ROOT

SIMULATED = {"engine": {"device": {"type": "Simulated"}}}
TTFT = {"name": "first-token", "metric": "TTFT", "targetMs": 1500}


def stated_rules() -> dict[str, str]:
    """Text -> message of every rule of the definition that is installed."""
    found: dict[str, str] = {}
    definition = yaml.safe_load((ROOT / "crds" / FILE_NAME).read_text())
    for version in definition["spec"]["versions"]:
        walk(
            version["schema"]["openAPIV3Schema"],
            lambda _path, node: found.update(
                {rule["rule"]: rule["message"] for rule in node.get(VALIDATIONS, ())}
            ),
        )
    return found


def said_of(document: dict[str, Any]) -> str | None:
    """Why the plug-in refuses it, None where it does not."""
    document = without_nulls(document)
    try:
        InferenceServiceSpec.model_validate(document["spec"])
    except ValidationError as error:
        return str(error)
    return refusal(document)


def test_every_rule_of_the_definition_is_checked() -> None:
    stated = stated_rules()
    assert len(stated) > 20
    assert set(RULES) == set(stated)


@pytest.mark.parametrize(("rule", "message"), stated_rules().items())
def test_every_check_finds_what_breaks_its_rule(rule: str, message: str) -> None:
    assert rule in RULES
    broken = [path for path in REJECT if message.startswith(expected(path))]
    assert broken
    for path in broken:
        said = refusal(yaml.safe_load(path.read_text()))
        assert said is not None, path.name
        assert expected(path) in said


@pytest.mark.parametrize("path", ACCEPT, ids=lambda path: path.stem)
def test_what_is_accepted_is_taken(path: Path) -> None:
    assert said_of(yaml.safe_load(path.read_text())) is None


@pytest.mark.parametrize("path", REJECT, ids=lambda path: path.stem)
def test_what_is_rejected_is_refused(path: Path) -> None:
    assert said_of(yaml.safe_load(path.read_text())) is not None


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"engine": {"device": {"profile": "x"}}, "model": {"uri": "pvc://a/b"}},
         "spec.engine.device.profile: profile is for the simulated device"),
        ({**SIMULATED, "scaling": {"maxReplicas": 65}},
         "spec.scaling.maxReplicas: the proxy serves at most 64 replicas"),
        ({**SIMULATED, "slos": [TTFT, {**TTFT, "name": "b"}]},
         "spec.slos: two objectives share metric, tier and percentile"),
        ({**SIMULATED, "slos": [TTFT, {**TTFT, "metric": "ITL"}]},
         "spec.slos: first-token: duplicate value"),
        ({**SIMULATED, "freezeWindows": [{"name": "night", "start": "0 1 * * *"}]},
         "spec.freezeWindows[0].start: say when it ends"),
        ({"engine": {"batchTokens": {"max": 64}, **SIMULATED["engine"]}},
         "spec.engine.batchTokens.max: batchTokens.max must exceed maxNumSeqs"),
        ({**SIMULATED, "resources": {"request": {"cpu": 1}}},
         "spec.resources.request: there is no such field"),
        ({**SIMULATED, "slos": [{**TTFT, "targetMs": "1500"}]},
         "spec.slos[0].targetMs: must be of type integer"),
    ],
)  # fmt: skip
def test_it_is_told_with_its_path(spec: dict[str, Any], said: str) -> None:
    told = refusal(inference_service("chat", spec))
    assert told is not None
    assert told.startswith(said)


AMOUNTS = (
    "1", "1.5Gi", "1.5", "1.0", "0", "-1", "+1", "1e3", "1E3", "1e-1", "1Ki", "1ki", "100m",
    "1000m", "0.5Ki", "1.Gi", ".5Gi", "1_000", " 1", "1 ", "inf", "NaN", "", "1GiB", "-0",
    "9223372036854775807", "0Gi", "1.5k", "1.50k", "1.5000k", "0001Ki", "1Ti", "10Ti", "99Ti",
    "100Ti", "1Pi",
    "1E", "10E", "1P", "999P", "1e18", "1e17", "1000000000000000000", "999999999999999999", "1e999",
    "64Gi", "80Gi", "9999Gi", "99999Gi", "100000Gi", "1u", "1n", "1e", "1e+3", "00064Gi",
)  # fmt: skip
SHAPES: tuple[dict[str, Any], ...] = (
    {**SIMULATED, "replicas": 2.0},
    {**SIMULATED, "replicas": 2.5},
    {**SIMULATED, "replicas": "2"},
    {**SIMULATED, "replicas": True},
    {**SIMULATED, "scaling": {"maxReplicas": None}},
    {**SIMULATED, "scaling": {"mode": "Auto", "maxReplicas": None}},
    {**SIMULATED, "scaling": {"costPerReplicaHour": 2.5}},
    {**SIMULATED, "slos": {}},
    {**SIMULATED, "template": {"spec": {"anything": [1, {"a": None}]}}},
    {**SIMULATED, "resources": {"claims": []}},
    {**SIMULATED, "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}},
    {**SIMULATED, "resources": {"limits": {"cpu": 1.5}}},
    {**SIMULATED, "resources": {"limits": ["cpu"]}},
    {**SIMULATED, "resources": {"limits": {"cpu": None, "memory": "1Gi"}}},
    {**SIMULATED, "resources": None},
    {**SIMULATED, "slos": None, "replicas": None, "tuning": None},
    {"engine": {**SIMULATED["engine"], "args": None}},
    {"engine": {**SIMULATED["engine"], "args": [None]}},
    {**SIMULATED, "slos": [None]},
    {**SIMULATED, "slos": [{**TTFT, "targetMs": None}]},
    {**SIMULATED, "slos": [{**TTFT, "percentile": None}]},
    {**SIMULATED, "later": None},
    {"engine": None},
    {**SIMULATED, "later": 1},
    {"model": {"uri": "file:///m.gguf"}},
    {"model": {}},
)


@pytest.mark.apiserver
@pytest.mark.parametrize(
    "spec",
    [
        *SHAPES,
        *({**SIMULATED, "resources": {"requests": {"memory": each}}} for each in AMOUNTS),
        *({"engine": {**SIMULATED["engine"], "kvCache": {"memory": each}}} for each in AMOUNTS),
    ],
    ids=str,
)
def test_it_judges_as_a_server_does(fleets: FleetApi, spec: dict[str, Any]) -> None:
    document = inference_service("chat-2", spec)
    reply, said = fleets.validate(document), said_of(document)
    assert (reply.status == 201) == (said is None), (reply.message, said)
