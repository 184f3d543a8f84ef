"""What is taken of a live object: its replicas, and the KV cache that its engines report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from paceline_operator.api.status import InferenceServiceStatus
from paceline_operator.cli.errors import CliError
from paceline_operator.cli.what_if import run as what_if
from paceline_operator.cli.what_if.live import reported_kv_tokens
from paceline_operator.cli.what_if.run import Asked, Gathered
from tests.operator.cli.api_server import Api, api_server
from tests.operator.cli.sample import SPEC, STATUS, TIME
from tests.support.fleet_api import inference_service

NOW_S = 1_767_268_800.0
PROFILED = {**SPEC, "engine": {"device": {"type": "Simulated", "profile": "llama-3-8b-a100"}}}
OFF = {**PROFILED, "scaling": {"mode": "Off"}}
AUTO = {**PROFILED, "scaling": {"maxReplicas": 8}}


@dataclass
class Cluster:
    """A live object, and the files of a user."""

    api: Api
    place: Path
    status: dict[str, Any] = field(default_factory=lambda: dict(STATUS))

    async def gather(self, live: dict[str, Any], new: dict[str, Any]) -> Gathered:
        metadata = {"name": "chat", "namespace": "default", "generation": 1}
        self.api.answer = (200, {"metadata": metadata, "spec": live, "status": self.status})
        return await what_if.gather(self.asked(new), NOW_S)

    def asked(self, new: dict[str, Any]) -> Asked:
        manifest, trace = self.place / "new.yaml", self.place / "load.csv"
        manifest.write_text(yaml.safe_dump(inference_service("chat", new)))
        if not trace.exists():  # what is played may not be written again
            trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,2\n60,10,2\n")
        return Asked(new=manifest, trace=trace, seeds=1)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with api_server("token") as api:
        api.login(tmp_path / "config", "token")
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        yield Cluster(api, tmp_path)


def knob(name: str, inputs: dict[str, Any] | None) -> dict[str, Any]:
    said = {"time": TIME, "knob": name, "action": "Hold", "reason": "ObjectivesMet"}
    return {**said, "inputs": inputs}


async def test_replicas_that_the_manifest_leaves_out_stay(cluster: Cluster) -> None:
    gathered = await cluster.gather({**OFF, "replicas": 4}, OFF)
    assert [each.spec.replicas for each in gathered.subjects] == [4, 4]
    (note,) = gathered.subjects[-1].notes
    assert note.startswith("spec.replicas: left out")
    comparison = what_if.compare(gathered, cluster.asked(OFF), lambda *_: None)
    assert comparison.new.spread(lambda run: run.replicas_mean).mean == 4
    assert note in comparison.new.notes


async def test_replicas_that_the_manifest_names_are_played(cluster: Cluster) -> None:
    gathered = await cluster.gather({**OFF, "replicas": 4}, {**OFF, "replicas": 2})
    assert [each.spec.replicas for each in gathered.subjects] == [4, 2]
    assert gathered.subjects[-1].notes == ()


@pytest.mark.parametrize(("age_s", "played"), [(60.0, 4), (4000.0, 1)])
async def test_a_manual_floor_is_played_only_while_it_holds(
    cluster: Cluster, age_s: float, played: int
) -> None:
    pilot = {"manual_replicas": 4, "manual_since_s": NOW_S - age_s}
    cluster.status["memory"] = {"pilot": pilot}
    gathered = await cluster.gather({**AUTO, "replicas": 4}, AUTO)
    assert [each.spec.replicas for each in gathered.subjects] == [played, played]
    told = [any("none any more" in note for note in each.notes) for each in gathered.subjects]
    assert told == [played == 1] * 2


async def test_a_live_fleet_that_is_scaled_to_none_is_the_old_spec(cluster: Cluster) -> None:
    with pytest.raises(CliError) as refused:
        await cluster.gather({**OFF, "replicas": 0}, OFF)
    assert str(refused.value) == (
        "default/chat in the cluster: spec.replicas: with 0 replicas nothing is served, so there "
        "is nothing to play; this is the old spec: --old none plays the new one alone"
    )


async def test_no_replicas_are_taken_over_into_a_spec_that_cannot_do_without(
    cluster: Cluster,
) -> None:
    with pytest.raises(
        CliError, match=r"new\.yaml, with the replicas of default/chat in the cluster: spec\.repl"
    ):
        await cluster.gather({**AUTO, "replicas": 0}, OFF)


async def test_the_cache_is_the_one_that_the_live_fleet_reports(cluster: Cluster) -> None:
    cluster.status["knobs"] = [knob("replicas", {"kvCapacityTokens": 12_345})]
    gathered = await cluster.gather(AUTO, AUTO)
    assert gathered.measured is not None
    assert gathered.measured.kv_tokens == 12_345
    comparison = what_if.compare(gathered, cluster.asked(AUTO), lambda *_: None)
    assert "KV cache: 12,345 tokens a replica, as its engines report." in comparison.new.notes


async def test_a_kubeconfig_that_is_none_is_a_note_where_no_cluster_is_named(
    cluster: Cluster,
) -> None:
    cluster.api.login(cluster.place / "config", "")
    (cluster.place / "config").write_bytes(b"")
    gathered = await what_if.gather(cluster.asked(AUTO), NOW_S)
    assert len(gathered.subjects) == 1
    (note,) = gathered.notes
    assert note.startswith("No old spec: no usable kubeconfig: ")


@pytest.mark.parametrize(
    ("knobs", "tokens"),
    [
        ([], None),
        ([knob("budget", None)], None),
        ([knob("budget", {"rowsP95": 3})], None),
        ([knob("budget", {"kvCapacityTokens": 900}), knob("replicas", {"rowsP95": 1})], 900),
        (
            [
                knob("budget", {"kvCapacityTokens": 900}),
                knob("replicas", {"kvCapacityTokens": 800}),
            ],
            800,
        ),
    ],
)
def test_what_the_status_says_of_the_cache(knobs: list[dict[str, Any]], tokens: int | None) -> None:
    assert reported_kv_tokens(InferenceServiceStatus.model_validate({"knobs": knobs})) == tokens
