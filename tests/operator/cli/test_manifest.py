from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from paceline_operator.cli.errors import CliError
from paceline_operator.cli.manifest import check_playable, read_manifest, read_spec
from tests.support.tree import ROOT

SLO = {"name": "first-token", "metric": "TTFT", "targetMs": 1500}
DEVICE = {"type": "Simulated"}
NIGHT = {"name": "night", "start": "0 1 * * *", "durationSeconds": 3600}


def manifest(spec: Any, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "paceline.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "chat"},
        "spec": spec,
        **more,
    }


def fleet(**more: Any) -> dict[str, Any]:
    """A spec that may be applied."""
    return {**more, "engine": {"device": DEVICE, **more.get("engine", {})}}


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


def test_an_object_as_the_server_gave_it_out_is_read(tmp_path: Path) -> None:
    """`kubectl get -o yaml` gives its status too, which a server ignores in what is applied."""
    status = {"observedGeneration": 3, "conditions": []}
    assert read_manifest(written(tmp_path, manifest(fleet(), status=status))).name == "chat"


def test_other_objects_of_the_file_are_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, {"kind": "ConfigMap", "apiVersion": "v1"}, manifest(fleet()), None)
    found = read_manifest(path)
    assert (found.name, found.namespace) == ("chat", None)


@pytest.mark.parametrize("items", [None, "text", [], [manifest(fleet()), manifest(fleet())]])
def test_a_list_has_to_hold_one(tmp_path: Path, items: Any) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": items}
    assert "objects of kind InferenceService" in refused(written(tmp_path, listed))


def test_the_items_of_a_list_are_read(tmp_path: Path) -> None:
    items = [{"kind": "ConfigMap", "apiVersion": "v1"}, manifest(fleet())]
    path = written(tmp_path, {"apiVersion": "v1", "kind": "List", "items": items})
    assert read_manifest(path).name == "chat"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"slos": [{**SLO, "targetMs": "soon"}]}, "spec.slos[0].targetMs: Input should be a valid"),
        ({"slos": [SLO, {"name": "b", "metric": "ITL"}]}, "spec.slos[1].targetMs: is required"),
        ({"slos": [{**SLO, "targetMS": 3}]}, "spec.slos[0].targetMS: there is no such field"),
        (
            {"slos": [{"name": "a", "metric": "ITL", "targetMS": 3}]},
            "spec.slos[0].targetMS: there is no such field; did you mean targetMs?",
        ),
        ({"colour": "red"}, "spec.colour: there is no such field; correct or remove it"),
        ({"scaling": {"maxReplica": 3}}, "spec.scaling.maxReplica: there is no such field"),
        ({"engine": {"kvCache": {"size": 3}}}, "spec.engine.kvCache.size: there is no such field"),
        (
            {"scaling": {"mode": False}},
            "spec.scaling.mode: Input should be 'Off', 'Recommend' or 'Auto', not false: an On, ",
        ),
        (
            {"scaling": {"costPerReplicaHour": 2.5}},
            "spec.scaling.costPerReplicaHour: Input should be a valid string; it is read as a "
            "number, so write it in quotes",
        ),
        (
            fleet(scaling={"minReplicas": "2"}),
            "spec.scaling.minReplicas: must be of type integer; write 2 without quotes",
        ),
        (
            fleet(resources={"requests": {"cpu": 0.5}}),
            "spec.resources.requests.cpu: must be of type integer or string; write it in quotes, "
            'as in "0.5"',
        ),
        ({"model": {"uri": True}}, "spec.model.uri: Input should be a valid string, not true: an"),
        (None, "spec.model.uri: model.uri says where the weights are"),
        (fleet(scaling={"mode": "Auto"}), "spec.scaling.maxReplicas: mode Auto needs maxReplicas"),
        (
            fleet(scaling={"minReplicas": 5, "maxReplicas": 2}),
            "spec.scaling.minReplicas: minReplicas must not exceed maxReplicas",
        ),
        (fleet(replicas=0), "spec.replicas: with 0 replicas nothing is served"),
        (
            fleet(slos=[{**SLO, "windowSeconds": 301}]),
            "spec.slos[0].windowSeconds: 301 must be from 1",
        ),
        (fleet(slos=[{**SLO, "targetMs": "3"}]), "spec.slos[0].targetMs: must be of type integer"),
        (
            fleet(engine={"batchTokens": {"max": 128, "min": 256}}),
            "spec.engine.batchTokens.min: min must not exceed max",
        ),
        ("all", "spec: Input should be a valid dictionary"),
    ],
)
def test_what_is_wrong_is_named_by_its_path(tmp_path: Path, spec: Any, said: str) -> None:
    assert refused(written(tmp_path, manifest(spec))).startswith(said)


@pytest.mark.behaviour(
    "a field that a template left empty is a field left out, as for an API server",
    report="`slos:` with nothing behind it was refused as no valid tuple",
)
@pytest.mark.parametrize(
    "empty",
    [
        {"slos": None},
        {"replicas": None},
        {"tuning": None},
        {"engine": {"args": None}},
        {"rollout": {"drainSeconds": None}},
        {"scaling": {"mode": None, "schedules": None}},
    ],
)
def test_an_empty_field_is_left_out(tmp_path: Path, empty: dict[str, Any]) -> None:
    plain = read_manifest(written(tmp_path, manifest(fleet()))).spec
    assert read_manifest(written(tmp_path, manifest(fleet(**empty)))).spec == plain


def test_nulls_of_lists_and_templates_stay(tmp_path: Path) -> None:
    spec = fleet(template={"spec": {"hostname": None}})
    assert read_manifest(written(tmp_path, manifest(spec))).spec.template == spec["template"]
    assert refused(written(tmp_path, manifest(fleet(slos=[None])))).startswith("spec.slos[0]: ")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (fleet(engine={"dtype": "bfloat16"}), "spec.engine.dtype is not supported yet; remove it"),
        (fleet(model={"draft": {"uri": "pvc://a/b"}}), "spec.model.draft is not supported yet"),
        (
            {"model": {"uri": "pvc://a/b"}, "engine": {"runtime": "VLLM", "image": "vllm:1"}},
            "spec.engine.runtime VLLM is not supported yet; use Paceline",
        ),
        (fleet(freezeWindows=[{**NIGHT, "start": "0 25 * * *"}]), "spec.freezeWindows[night]: "),
        (
            fleet(scaling={"schedules": [{**NIGHT, "minReplicas": 1, "timeZone": "Mars/Base"}]}),
            "spec.scaling.schedules[night]: ",
        ),
        (fleet(model={"uri": "ftp://host/m"}), "spec.model.uri ftp://host/m: scheme ftp://"),
        (fleet(template={"spec": {"containers": {}}}), "spec.template: containers must be a list"),
    ],
)
def test_what_the_operator_would_stall_on_is_refused(tmp_path: Path, spec: Any, said: str) -> None:
    assert refused(written(tmp_path, manifest(spec))).startswith(said)


def test_a_name_that_the_api_server_refuses_is_refused(tmp_path: Path) -> None:
    long = manifest(fleet(), metadata={"name": "c" * 41})
    assert refused(written(tmp_path, long)).startswith("metadata.name must have at most 40")


@pytest.mark.parametrize("prefix", ["file:///any/directory/m.gguf", "pvc://claim/m"])
def test_where_models_may_lie_is_for_the_installation_to_say(tmp_path: Path, prefix: str) -> None:
    given = {"model": {"uri": prefix}}
    assert read_manifest(written(tmp_path, manifest(given))).spec.model.uri == prefix


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        ([], "no objects of kind InferenceService"),
        ([{"kind": "Pod"}, "text"], "no objects of kind InferenceService"),
        ([manifest({}), manifest({})], "2 objects of kind InferenceService"),
        ([manifest({}, apiVersion="paceline.dev/v9")], "no objects of kind InferenceService"),
        ([manifest({}, metadata={})], "metadata.name: it has no name"),
        ([manifest({}, metadata={"name": ""})], "metadata.name: it has no name"),
        ([manifest({}, metadata={"name": 123})], "metadata.name: it is read as a number, not as"),
        ([manifest({}, metadata={"name": True})], "metadata.name: it is read as true or false, "),
        (
            [manifest({}, metadata={"name": date(2024, 1, 1)})],
            "metadata.name: it is read as a date, not as text; write it in quotes",
        ),
        (
            [manifest({}, metadata={"name": "a", "namespace": "b/c"})],
            "metadata.namespace: 'b/c'",
        ),
        (
            [manifest({}, metadata={"name": "a", "namespace": 5})],
            "metadata.namespace: 5 is no",
        ),
    ],
)
def test_what_the_file_has_to_hold(tmp_path: Path, documents: list[Any], said: str) -> None:
    assert refused(written(tmp_path, *documents)).startswith(said)


@pytest.mark.parametrize("namespace", [None, "", "team"])
def test_the_namespace_is_as_written(tmp_path: Path, namespace: str | None) -> None:
    given = manifest(fleet(), metadata={"name": "chat", "namespace": namespace})
    assert read_manifest(written(tmp_path, given)).namespace == (namespace or None)


def test_what_contains_itself_is_refused_as_kubectl_does(tmp_path: Path) -> None:
    path = tmp_path / "new.yaml"
    path.write_text(
        "apiVersion: paceline.dev/v1alpha1\nkind: InferenceService\n"
        "metadata: {name: chat, labels: &own {x: *own}}\n"
        "spec: {engine: {device: {type: Simulated}}}\n"
    )
    assert refused(path).startswith("is not YAML: the value of an anchor contains itself")


@pytest.mark.behaviour(
    "a few hundred bytes of manifest never stand for more than memory holds",
    report="a manifest whose anchors repeat each other took all memory of the check",
)
def test_anchors_that_repeat_each_other_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "new.yaml"
    lines = (f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12))
    path.write_text("\n".join(("a0: &a0 [x]", *lines)))
    assert refused(path).startswith("is not YAML: aliases repeat more than 100000 values")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a: [", "is not YAML: "),
        (b"\xff\xfe\x00", "is no text"),
        (b"\x07", "is not YAML: "),
        (b"a: 2024-02-30", "is not YAML: day is out of range for month"),
    ],
)
def test_a_file_that_is_no_manifest(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "new.yaml"
    path.write_bytes(content)
    assert refused(path).startswith(said)


def test_a_missing_file(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.yaml").startswith("No such file or directory; name a file")


def test_a_live_object_may_be_newer_than_the_plug_in() -> None:
    assert read_spec({"later": {"x": 1}}, "default/chat")


@pytest.mark.parametrize(
    ("given", "is_played"),
    [
        ({"replicas": 0}, False),
        ({"replicas": 0, "scaling": {"mode": "Off", "maxReplicas": 3}}, False),
        ({"replicas": 0, "scaling": {"maxReplicas": 3}}, True),
        ({"replicas": 1}, True),
    ],
)
def test_a_fleet_that_serves_nobody_is_not_played(given: dict[str, Any], is_played: bool) -> None:
    spec = read_spec(given, "default/chat")
    if is_played:
        check_playable(spec, "default/chat")
        return
    with pytest.raises(CliError, match=r"default/chat: spec\.replicas: with 0 replicas"):
        check_playable(spec, "default/chat")
