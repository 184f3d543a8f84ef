"""The definition as an object, and the file that holds it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from paceline_operator.api import v1alpha1
from paceline_operator.api.crd import (
    FILE_NAME,
    custom_resource_definition,
    object_schema,
    printer_columns,
    render,
)
from paceline_operator.api.schema import walk
from tests.support.tree import ROOT

FREE = "x-kubernetes-preserve-unknown-fields"


def test_names() -> None:
    definition = custom_resource_definition()
    assert definition["metadata"]["name"] == "inferenceservices.paceline.dev"
    assert definition["spec"]["scope"] == "Namespaced"
    names = definition["spec"]["names"]
    assert names["shortNames"] == ["infs"]
    assert names["categories"] == ["all"]


def test_columns_in_the_order_people_read_them() -> None:
    columns = printer_columns()
    shown = [column["name"] for column in columns if not column.get("priority")]
    assert shown == ["Ready", "Replicas", "Budget", "TTFT", "ITL", "Age"]
    assert {column["name"] for column in columns} - set(shown) == {"SLOs", "Reason"}


def test_columns_read_fields_that_exist() -> None:
    paths = set()
    walk(object_schema(), lambda path, _: paths.add(path))
    for column in printer_columns():
        path = column["jsonPath"]
        if path.startswith(".status") and "?(" not in path:
            assert path in paths


def test_scale_reads_and_writes_fields_that_exist() -> None:
    paths = set()
    walk(object_schema(), lambda path, _: paths.add(path))
    (version,) = custom_resource_definition()["spec"]["versions"]
    assert version["subresources"]["status"] == {}
    assert set(version["subresources"]["scale"].values()) <= paths


def test_every_field_is_described() -> None:
    silent = []

    def look(path: str, node: dict[str, Any]) -> None:
        is_item = path.endswith(("[]", "[*]"))
        if "description" not in node and path != ".metadata" and not is_item:
            silent.append(path)

    walk(object_schema(), look)
    assert silent == []


def test_descriptions_are_sentences_of_this_api() -> None:
    """They end with a full stop and name fields as they are on the wire."""
    wrong = []

    def look(path: str, node: dict[str, Any]) -> None:
        text = str(node.get("description", "."))
        if not text.endswith(".") or "Returns" in text or "target_ms" in text:
            wrong.append(path)

    walk(object_schema(), look)
    assert wrong == []


def test_everything_is_bounded_where_users_write() -> None:
    """Unbounded lists and texts make CEL too expensive and objects too large."""
    loose = []

    def look(path: str, node: dict[str, Any]) -> None:
        if node.get("type") == "array" and "maxItems" not in node:
            loose.append(path)
        if node.get("type") == "string" and not {"maxLength", "enum"} & node.keys():
            loose.append(path)
        if node.get("type") == "integer" and not {"minimum", "maximum"} <= node.keys():
            loose.append(path)

    walk(object_schema()["properties"]["spec"], look)
    assert loose == []


EXPLAINED = ("expected", "observed", "inputs", "considered[].figures")


def test_only_the_template_and_private_parts_are_free() -> None:
    free = []
    walk(object_schema(), lambda path, node: free.append(path) if node.get(FREE) else None)
    assert free == [
        ".spec.template",
        ".status.model",
        *(f".status.lastDecision.{part}" for part in EXPLAINED),
        *(f".status.knobs[].{part}" for part in EXPLAINED),
        ".status.decisions[].expected",
        ".status.decisions[].observed",
        ".status.memory",
    ]


def test_text_is_the_object_without_references() -> None:
    text = render()
    assert yaml.safe_load(text) == custom_resource_definition()
    assert text == render()
    assert not re.search(r"[:-] [&*]id\d+", text)


def test_command_writes_each_directory(tmp_path: Path) -> None:
    places = [tmp_path / "one", tmp_path / "deep" / "two"]
    command = [sys.executable, "-m", "paceline_operator.api.crd", "--write", *map(str, places)]
    subprocess.run(command, check=True)
    assert [(place / FILE_NAME).read_text() for place in places] == [render(), render()]


@pytest.mark.parametrize("place", ["crds", "charts/paceline/crds"])
def test_committed_files_are_current(place: str) -> None:
    assert (ROOT / place / FILE_NAME).read_text() == render()


def test_name_limit_leaves_room_for_what_is_named_after_it() -> None:
    """`<name>-proxy`, a ReplicaSet's hash and a pod's suffix."""
    assert v1alpha1.MAX_NAME_LENGTH + len("-proxy") + len("-0123456789-abcde") <= 63


def test_a_fresh_object_can_be_scaled() -> None:
    """The server refuses /scale while the field is absent, so it is stored from the start."""
    assert object_schema()["properties"]["spec"]["properties"]["replicas"]["default"] == 1
