"""What counts as taken from us, in the form a server keeps its owners of fields."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from paceline_operator.domain.field_set import holds

MANIFEST: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {
        "name": "d", "namespace": "n", "labels": {"a": "b"}, "annotations": {},
        "ownerReferences": [{"uid": "u", "name": "o"}],
    },
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"spec": {
            "automountServiceAccountToken": False,
            "tolerations": [{"key": "gpu"}],
            "containers": [{
                "name": "c", "args": ["x"], "env": [{"name": "Z", "value": ""}],
                "ports": [
                    {"containerPort": 8000, "name": "http"},
                    {"containerPort": 8000, "name": "u", "protocol": "UDP"},
                ],
                "volumeMounts": [{"mountPath": "/e", "name": "e", "readOnly": False}],
            }],
        }},
    },
}  # fmt: skip
CONTAINER = 'k:{"name":"c"}'
OWNED: dict[str, Any] = {
    "f:metadata": {
        "f:labels": {"f:a": {}}, "f:annotations": {}, "f:ownerReferences": {'k:{"uid":"u"}': {}},
    },
    "f:spec": {
        "f:replicas": {},
        "f:selector": {},
        "f:template": {"f:spec": {
            "f:automountServiceAccountToken": {},
            "f:tolerations": {},
            "f:containers": {CONTAINER: {
                ".": {}, "f:name": {}, "f:args": {},
                "f:env": {'k:{"name":"Z"}': {".": {}, "f:name": {}, "f:value": {}}},
                "f:ports": {
                    'k:{"containerPort":8000,"protocol":"TCP"}': {
                        ".": {}, "f:containerPort": {}, "f:name": {},
                    },
                    'k:{"containerPort":8000,"protocol":"UDP"}': {
                        ".": {}, "f:containerPort": {}, "f:name": {}, "f:protocol": {},
                    },
                },
                "f:volumeMounts": {'k:{"mountPath":"/e"}': {
                    ".": {}, "f:mountPath": {}, "f:name": {}, "f:readOnly": {},
                }},
            }},
        }},
    },
}  # fmt: skip


def live(fields: dict[str, Any], **entry: Any) -> dict[str, Any]:
    found = {"manager": "paceline", "operation": "Apply", "fieldsV1": fields, **entry}
    return {"metadata": {"managedFields": [{"manager": "x", "operation": "Update"}, found]}}


def test_what_was_applied_is_held() -> None:
    assert holds(MANIFEST, live(OWNED))


@pytest.mark.parametrize(
    "path",
    [
        ("f:metadata", "f:labels", "f:a"),
        ("f:metadata", "f:ownerReferences", 'k:{"uid":"u"}'),
        ("f:spec", "f:replicas"),
        ("f:spec", "f:selector"),
        ("f:spec", "f:template", "f:spec", "f:automountServiceAccountToken"),
        ("f:spec", "f:template", "f:spec", "f:tolerations"),
        ("f:spec", "f:template", "f:spec", "f:containers", CONTAINER),
        ("f:spec", "f:template", "f:spec", "f:containers", CONTAINER, "f:args"),
        ("f:spec", "f:template", "f:spec", "f:containers", CONTAINER, "f:env",
         'k:{"name":"Z"}', "f:value"),
        ("f:spec", "f:template", "f:spec", "f:containers", CONTAINER, "f:ports",
         'k:{"containerPort":8000,"protocol":"TCP"}'),
        ("f:spec", "f:template", "f:spec", "f:containers", CONTAINER, "f:volumeMounts",
         'k:{"mountPath":"/e"}', "f:readOnly"),
    ],
)  # fmt: skip
def test_what_someone_took_is_not(path: tuple[str, ...]) -> None:
    fields = copy.deepcopy(OWNED)
    place = fields
    for part in path[:-1]:
        place = place[part]
    # One more beside it, so that the parent is not owned as a whole for being empty.
    place["f:other"] = {}
    assert holds(MANIFEST, live(fields))
    del place[path[-1]]
    assert not holds(MANIFEST, live(fields))


@pytest.mark.parametrize(
    "entry",
    [
        {"manager": "kubectl"},
        {"operation": "Update"},
        {"subresource": "scale"},
        {"fieldsV1": {}},
        {"fieldsV1": None},
    ],
)
def test_only_what_we_applied_counts(entry: dict[str, Any]) -> None:
    assert not holds(MANIFEST, live(OWNED, **entry))


def test_without_owners_nothing_is_held() -> None:
    assert not holds(MANIFEST, {"metadata": {}})


def test_an_entry_of_a_set_is_known_by_its_value() -> None:
    manifest = {"metadata": {}, "spec": {"set": ["a", "b"]}}
    fields = {"f:spec": {"f:set": {'v:"a"': {}, 'v:"b"': {}}}}
    assert holds(manifest, live(fields))
    del fields["f:spec"]["f:set"]['v:"b"']
    assert not holds(manifest, live(fields))
