from __future__ import annotations

from typing import Any

import pytest

from paceline_operator.domain.belonging import belongs, is_child, is_replica
from tests.support.fleet import made_by

OURS = {"apiVersion": "paceline.dev/v1alpha1", "kind": "InferenceService", "name": "a", "uid": "u"}


@pytest.mark.parametrize(
    ("metadata", "uid", "ours"),
    [
        ({"ownerReferences": [OURS]}, "u", True),
        ({"ownerReferences": [{"uid": "x"}, OURS]}, "u", True),
        ({"ownerReferences": [OURS]}, "newer", False),
        ({"ownerReferences": [{**OURS, "uid": ""}]}, "", False),
        ({"ownerReferences": []}, "u", False),
        ({"ownerReferences": None}, "u", False),
        ({"labels": {"paceline.dev/service": "a"}}, "u", False),
    ],
    ids=["ours", "ours too", "of one of our name", "no UID", "nobody's", "null", "labels alone"],
)
def test_belongs(metadata: dict[str, Any], uid: str, ours: bool) -> None:
    assert belongs({"metadata": metadata}, uid) is ours


MARKS = {"paceline.dev/service": "a", "app.kubernetes.io/managed-by": "paceline"}
APPLIED: dict[str, Any] = {
    "manager": "paceline", "operation": "Apply",
    "fieldsV1": {"f:metadata": {"f:labels": {}}, "f:data": {"f:token": {}}},
}  # fmt: skip
NO_DATA = {**APPLIED, "fieldsV1": {"f:metadata": {"f:labels": {}}}}
CONTROLLER = {"apiVersion": "apps/v1", "kind": "Deployment", "uid": "x", "controller": True}


@pytest.mark.parametrize(
    ("kind", "fields", "ours"),
    [
        ("Service", {"ownerReferences": [OURS], "labels": {}, "managedFields": []}, True),
        ("Service", {}, True),
        ("Service", {"managedFields": [NO_DATA]}, True),
        ("Secret", {}, True),
        ("Secret", {"managedFields": [NO_DATA]}, False),
        ("Service", {"ownerReferences": [{"uid": "x"}]}, True),
        ("Service", {"ownerReferences": [CONTROLLER]}, False),
        ("Service", {"managedFields": []}, False),
        ("Service", {"managedFields": [{**APPLIED, "manager": "kubectl"}]}, False),
        ("Service", {"managedFields": [{**APPLIED, "operation": "Update"}]}, False),
        ("Service", {"labels": {**MARKS, "paceline.dev/service": "b"}}, False),
        ("Service", {"labels": {"paceline.dev/service": "a"}}, False),
        ("Service", {"labels": None}, False),
    ],
)
def test_a_child_that_lost_its_reference_is_known_by_what_we_applied(
    kind: str, fields: dict[str, Any], ours: bool
) -> None:
    metadata = {"labels": MARKS, "managedFields": [APPLIED], **fields}
    assert is_child({"kind": kind, "metadata": metadata}, "u", "a") is ours


@pytest.mark.behaviour(
    "a pod that merely carries a fleet's labels is no replica of it: it is not counted, not marked "
    "and not shown the admin token",
    report="any pod with three labels was taken for a replica and sent the admin token",
)
@pytest.mark.parametrize(
    ("owners", "found"),
    [
        ([made_by("chat")], True),
        ([{"kind": "Other", "name": "x"}, made_by("chat")], True),
        ([made_by("chat-proxy")], False),
        ([made_by("cha")], False),
        ([{**made_by("chat"), "name": "chat"}], False),
        ([{**made_by("chat"), "name": "chat-"}], False),
        ([{**made_by("chat"), "controller": False}], False),
        ([{**made_by("chat"), "kind": "Job"}], False),
        ([{**made_by("chat"), "apiVersion": "batch/v1"}], False),
        ([{"controller": True}], False),
        ([], False),
        (None, False),
    ],
    ids=["ours", "ours too", "the proxy's", "another's", "no hash", "empty hash", "no controller",
         "a job", "another group", "no name", "nobody's", "null"],
)  # fmt: skip
def test_a_replica_is_made_by_the_replica_set(owners: Any, found: bool) -> None:
    assert is_replica({"metadata": {"ownerReferences": owners}}, "chat") is found


def test_of_no_deployment_nothing_is_a_replica() -> None:
    assert not is_replica({"metadata": {"ownerReferences": [made_by("")]}}, "")
