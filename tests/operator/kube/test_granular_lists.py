"""Lists that a server merges entry by entry: all are known, and none is written without end."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from paceline_operator.domain.difference import ENTRY_KEYS
from paceline_operator.kube.apply import apply
from paceline_operator.kube.client import KubeClient, load_configuration
from paceline_operator.kube.resource import DEPLOYMENT
from tests.operator.kube.test_writes import rendered
from tests.support.fleet_api import FleetApi, inference_service
from tests.support.rest import STRATEGIC

pytestmark = pytest.mark.apiserver

OURS: dict[str, Any] = {
    "hostAliases": [{"ip": "10.1.1.1", "hostnames": ["a"]}],
    "imagePullSecrets": [{"name": "mirror"}],
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
         "labelSelector": {}},
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
    ],
    "tolerations": [{"key": "gpu", "operator": "Exists", "value": None}],
    "affinity": {"nodeAffinity": None, "podAffinity": {}},
    "nodeSelector": {"pool": ""},
    "hostNetwork": False,
    "priorityClassName": "",
    "dnsConfig": {"options": [{"name": "ndots", "value": "1"}], "searches": []},
    "readinessGates": [],
    "resourceClaims": [{"name": "device", "resourceClaimName": "one"}],
    "schedulingGates": [{"name": "example.com/gate"}],
    "volumes": [
        {"name": "more", "emptyDir": {}, "configMap": None},
        {"name": "joined", "projected": {"sources": [{"secret": {"name": "s", "items": []}}]}},
        {"name": "disk", "persistentVolumeClaim": {"claimName": "c"}},
    ],
    "initContainers": [{"name": "first", "image": "i:1", "resources": {}, "env": []}],
    "containers": [{
        "name": "engine",
        "env": [{"name": "A"}, {"name": "B", "value": ""}, {"name": "C", "value": None}],
        "envFrom": [{"prefix": "", "configMapRef": {"name": "x", "optional": False}}],
        "ports": [{"containerPort": 9999, "protocol": "UDP"}, {"containerPort": 9998}],
        "volumeMounts": [{"name": "more", "mountPath": "/more", "subPath": ""}],
        "volumeDevices": [{"name": "disk", "devicePath": "/dev/x"}],
        "resources": {"claims": [{"name": "device"}], "limits": {"cpu": "1.50"}},
        "securityContext": {"privileged": None, "capabilities": {"drop": ["ALL"], "add": []}},
    }],
}  # fmt: skip
THEIRS: dict[str, Any] = {
    "hostAliases": [{"ip": "10.1.1.2", "hostnames": ["b"]}],
    "imagePullSecrets": [{"name": "another"}],
    "topologySpreadConstraints": [
        {"maxSkew": 2, "topologyKey": "host", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
    "resourceClaims": [{"name": "second", "resourceClaimName": "two"}],
    "volumes": [
        {"name": "theirs", "emptyDir": {}},
        {"name": "theirs-too", "persistentVolumeClaim": {"claimName": "d"}},
    ],
    "initContainers": [{"name": "another", "image": "i:1"}],
    "containers": [{
        "name": "engine",
        "env": [{"name": "Z", "value": "1"}],
        "volumeMounts": [{"name": "theirs", "mountPath": "/theirs"}],
        "volumeDevices": [{"name": "theirs-too", "devicePath": "/dev/y"}],
        "ports": [{"containerPort": 7000}],
    }],
}  # fmt: skip


def keyed_lists(schemas: dict[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Name and keys of every list that is merged entry by entry, in what a server publishes."""
    for schema in schemas.values():
        for name, field in schema.get("properties", {}).items():
            if field.get("x-kubernetes-list-type") == "map":
                yield name, tuple(sorted(field["x-kubernetes-list-map-keys"]))


PARTS = ("Deployment", "ServiceSpec", "ConfigMap", "Secret", "Pod", "Container", "Volume",
         "ResourceRequirements", "ObjectMeta", "EphemeralContainer")  # fmt: skip
TOLD = ("Status", "Condition", "Health")
"""Ends of the names of what only a server or a kubelet writes."""


def test_every_list_that_a_server_merges_by_keys_is_known(fleets: FleetApi) -> None:
    found: set[tuple[str, tuple[str, ...]]] = set()
    for group in ("api/v1", "apis/apps/v1"):
        reply = fleets.rest.call("GET", f"/openapi/v3/{group}").body
        schemas = reply["components"]["schemas"]
        parts = {
            name: schema
            for name, schema in schemas.items()
            if name.rpartition(".")[2].startswith(PARTS)
            and not name.rpartition(".")[2].endswith(TOLD)
        }
        found |= set(keyed_lists(parts))
    known = {(name, tuple(sorted(keys))) for name, each in ENTRY_KEYS.items() for keys in each}
    assert len(found) > 8
    assert {each for each in found - known if each[0] != "healthConditions"} == set()


@pytest.mark.behaviour(
    "an overlay with every list that a server merges, with empty values and nulls, is written "
    "once, and never again, whatever others add beside its entries",
    report="a port beside ours, one more spread constraint or a null made the operator write "
    "without end",
)
async def test_an_overlay_of_all_of_them_is_written_once(
    fleets: FleetApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(fleets.server.kubeconfig))
    name = f"granular-{next(_numbers)}"
    service = fleets.create(
        inference_service(name, {"engine": {"device": {"type": "Simulated"}}})
    ).body
    manifest = rendered(service, template={"spec": OURS})[f"Deployment/{name}"]
    async with KubeClient(await load_configuration()) as client:
        first = await apply(client, manifest, None)
        assert first.written
        live = await client.get(DEPLOYMENT.path("default", name))
        assert not (await apply(client, manifest, {**live, "kind": "Deployment"})).written
        path = DEPLOYMENT.path("default", name)
        patch = {"spec": {"template": {"spec": THEIRS}}}
        changed = fleets.rest.call("PATCH", f"{path}?fieldManager=other", patch, STRATEGIC)
        assert changed.status == 200, changed.message
        (engine,) = changed.body["spec"]["template"]["spec"]["containers"]
        assert {each["containerPort"] for each in engine["ports"]} >= {7000, 9998, 9999}
        live = {**changed.body, "kind": "Deployment"}
        assert not (await apply(client, manifest, live)).written


_numbers = itertools.count()


@pytest.mark.parametrize("protocol", ["UDP", "SCTP"])
async def test_a_port_of_another_protocol_beside_ours_is_theirs(
    fleets: FleetApi, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(fleets.server.kubeconfig))
    name = f"granular-{next(_numbers)}"
    service = fleets.create(
        inference_service(name, {"engine": {"device": {"type": "Simulated"}}})
    ).body
    manifest = rendered(service)[f"Service/{name}"]
    path = f"/api/v1/namespaces/default/services/{name}"
    async with KubeClient(await load_configuration()) as client:
        live = (await apply(client, manifest, None)).child
        ours = [{**live["spec"]["ports"][0]}]
        more = {"name": "more", "port": ours[0]["port"], "protocol": protocol}
        patch = {"spec": {"ports": [more]}}
        # What is applied is merged by both parts of the key.
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, **patch}
        changed = fleets.rest.call(
            "PATCH", f"{path}?fieldManager=other", body, "application/apply-patch+yaml"
        )
        assert changed.status == 200, changed.message
        assert len(changed.body["spec"]["ports"]) == 2
        assert not (await apply(client, manifest, {**changed.body, "kind": "Service"})).written
