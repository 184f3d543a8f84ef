from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from paceline_operator.cli.errors import CliError
from paceline_operator.cli.manifest import read_manifest, read_spec
from tests.support.tree import ROOT

SLO = {"name": "first-token", "metric": "TTFT", "targetMs": 1500}


def manifest(spec: Any, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "paceline.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "chat"},
        "spec": spec,
        **more,
    }


def written(tmp_path: Path, *documents: Any) -> Path:
    path = tmp_path / "new.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return path


def refused(path: Path) -> str:
    with pytest.raises(CliError) as caught:
        read_manifest(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return text.removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("manifests/samples/*.yaml")), ids=lambda p: p.stem
)
def test_every_sample_is_read(path: Path) -> None:
    assert read_manifest(path).spec.slos


def test_other_objects_of_the_file_are_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, {"kind": "ConfigMap", "apiVersion": "v1"}, manifest({}), None)
    found = read_manifest(path)
    assert (found.name, found.namespace) == ("chat", None)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"slos": [{**SLO, "targetMs": "soon"}]}, "spec.slos.0.targetMs: Input should be a valid"),
        ({"slos": [SLO, {"name": "b", "metric": "ITL"}]}, "spec.slos.1.targetMs: Field required"),
        ({"slos": [{**SLO, "targetMS": 3}]}, "spec.slos.0.targetMS: there is no such field"),
        ({"scaling": {"maxReplica": 3}}, "spec.scaling.maxReplica: there is no such field"),
        ({"engine": {"kvCache": {"size": 3}}}, "spec.engine.kvCache.size: there is no such field"),
        ({"scaling": {"mode": False}}, "spec.scaling.mode: Input should be 'Off'"),
        ({"scaling": {"mode": "Auto"}}, "spec.scaling.maxReplicas: mode Auto needs it"),
        (
            {"scaling": {"minReplicas": 5, "maxReplicas": 2}},
            "spec.scaling.minReplicas: 5 must not exceed 2",
        ),
        ({"replicas": 0}, "spec.replicas: with 0 replicas nothing is served"),
        (
            {"engine": {"batchTokens": {"max": 64}}},
            "spec.engine.batchTokens.max: 64 must exceed maxNumSeqs (64)",
        ),
        (
            {"engine": {"batchTokens": {"max": 128, "min": 256}}},
            "spec.engine.batchTokens.min: 256 must not exceed max (128)",
        ),
        ("all", "spec: Input should be a valid dictionary"),
    ],
)
def test_what_is_wrong_is_named_by_its_path(tmp_path: Path, spec: Any, said: str) -> None:
    assert refused(written(tmp_path, manifest(spec))).startswith(said)


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        ([], "no objects of kind InferenceService"),
        ([{"kind": "Pod"}, "text"], "no objects of kind InferenceService"),
        ([manifest({}), manifest({})], "2 objects of kind InferenceService"),
        ([manifest({}, apiVersion="paceline.dev/v9")], "no objects of kind InferenceService"),
        ([manifest({}, metadata={})], "metadata.name: it has no name"),
    ],
)
def test_what_the_file_has_to_hold(tmp_path: Path, documents: list[Any], said: str) -> None:
    assert refused(written(tmp_path, *documents)).startswith(said)


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"a: [", "is not YAML: "), (b"\xff\xfe\x00", "is no text"), (b"\x07", "is not YAML: ")],
)
def test_a_file_that_is_no_manifest(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "new.yaml"
    path.write_bytes(content)
    assert refused(path).startswith(said)


def test_a_missing_file(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.yaml").startswith("No such file or directory; name a file")


def test_a_live_object_may_be_newer_than_the_plug_in() -> None:
    assert read_spec({"later": {"x": 1}}, "default/chat", may_be_newer=True)
