"""Apply, scale and status on a real API server: what is written, and what must fail."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from kubernetes_asyncio.client import Configuration

from paceline_operator.api.v1alpha1 import API_VERSION, KIND
from paceline_operator.domain import tunables
from paceline_operator.domain.desired import Owner, RenderInput, children
from paceline_operator.domain.names import ANNOTATION_APPLIED
from paceline_operator.domain.ownership import foreign_owner, is_claimed
from paceline_operator.kube.apply import ForeignChildError, apply, write_status
from paceline_operator.kube.client import KubeClient, load_configuration
from paceline_operator.kube.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    LeaseLostError,
    NotFoundError,
)
from paceline_operator.kube.read import fetch, fetch_children
from paceline_operator.kube.resource import (
    BY_KIND,
    CONFIG_MAP,
    DEPLOYMENT,
    INFERENCE_SERVICE,
    SECRET,
)
from paceline_operator.kube.scale import read_scale, write_scale
from tests.support.fleet import PLATFORM, spec
from tests.support.fleet_api import COLLECTION, FleetApi, inference_service
from tests.support.rest import MERGE, STRATEGIC, Reply

pytestmark = pytest.mark.apiserver
_numbers = itertools.count()


@pytest.fixture
async def client(fleets: FleetApi, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KubeClient]:
    monkeypatch.setenv("KUBECONFIG", str(fleets.server.kubeconfig))
    async with KubeClient(await configuration(fleets)) as made:
        yield made


async def configuration(fleets: FleetApi) -> Configuration:
    found = await load_configuration()
    assert found.host == fleets.server.url
    return found


@pytest.fixture
def service(fleets: FleetApi) -> dict[str, Any]:
    name = f"writes-{next(_numbers)}"
    made = fleets.create(inference_service(name, {"engine": {"device": {"type": "Simulated"}}}))
    assert made.status == 201, made.message
    return made.body


def rendered(service: dict[str, Any], **fields: Any) -> dict[str, dict[str, Any]]:
    parsed = spec(**fields)
    metadata = service["metadata"]
    owner = Owner(name=metadata["name"], namespace="default", uid=metadata["uid"])
    given = RenderInput(
        owner=owner, spec=parsed, platform=PLATFORM, token="t", live=tunables.initial(parsed)
    )
    return {f"{c['kind']}/{c['metadata']['name']}": c for c in children(given)}


async def test_second_apply_of_the_same_manifest_writes_nothing(
    client: KubeClient, service: dict[str, Any]
) -> None:
    for manifest in rendered(service).values():
        first = await apply(client, manifest, None)
        assert first.written
        second = await apply(client, manifest, first.child)
        assert not second.written, manifest["kind"]


async def test_a_change_is_written_and_a_dropped_field_removed(
    client: KubeClient, service: dict[str, Any]
) -> None:
    name = service["metadata"]["name"]
    manifest = rendered(service, template={"spec": {"priorityClassName": "high"}})
    first = await apply(client, manifest[f"Deployment/{name}"], None)
    assert first.child["spec"]["template"]["spec"]["priorityClassName"] == "high"
    second = await apply(client, rendered(service)[f"Deployment/{name}"], first.child)
    assert second.written
    assert "priorityClassName" not in second.child["spec"]["template"]["spec"]


async def test_drift_by_someone_else_is_repaired(
    client: KubeClient, service: dict[str, Any], fleets: FleetApi
) -> None:
    name = service["metadata"]["name"]
    manifest = rendered(service)[f"ConfigMap/{name}-tunables"]
    await apply(client, manifest, None)
    path = f"/api/v1/namespaces/default/configmaps/{name}-tunables"
    changed = fleets.rest.call("PATCH", path, {"data": {"tunables.json": "{}"}}, MERGE)
    live = {"apiVersion": "v1", "kind": "ConfigMap", **changed.body}
    again = await apply(client, manifest, live)
    assert again.written
    assert again.child["data"] == manifest["data"]


CONTAINER = {"name": "engine", "image": "other:1"}
SIDECAR = {"name": "sidecar", "image": "other:1"}
TAKEN: list[tuple[str, str, dict[str, Any]]] = [
    ("Deployment/{}-proxy", "scaled", {"spec": {"replicas": 0}}),
    ("Deployment/{}-proxy", "config", {"spec": {"template": {"metadata": {"annotations": {
        "paceline.dev/config": "x"}}}}}),
    ("Deployment/{}", "image", {"spec": {"template": {"spec": {"containers": [CONTAINER]}}}}),
    ("Deployment/{}", "no token switch", {"spec": {"template": {"spec": {
        "automountServiceAccountToken": None}}}}),
    ("Deployment/{}", "surge", {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 3}}}}),
    ("Deployment/{}", "history", {"spec": {"revisionHistoryLimit": None}}),
    ("Deployment/{}", "label", {"metadata": {"labels": {
        "app.kubernetes.io/managed-by": None}}}),
    ("Service/{}", "selector narrowed", {"spec": {"selector": {"x": "y"}}}),
    ("Service/{}", "selector gone", {"spec": {"selector": None}}),
    ("Service/{}", "port", {"spec": {"ports": [{"port": 8000, "targetPort": "health"}]}}),
    ("Service/{}-pods", "label", {"metadata": {"labels": {"paceline.dev/component": "z"}}}),
    ("ConfigMap/{}-proxy", "data", {"data": {"haproxy.cfg": ""}}),
    ("ConfigMap/{}-tunables", "no data", {"data": None}),
    ("Secret/{}-admin", "no data", {"data": None}),
]  # fmt: skip


@pytest.mark.behaviour(
    "whatever someone changes or removes of a field that the operator declares is put back",
    report="a proxy scaled to 0, a selector with a further label stayed as someone had left them",
)
@pytest.mark.parametrize(
    ("child", "patch"),
    [(child, patch) for child, _, patch in TAKEN],
    ids=[f"{child.partition('/')[0]} {what}" for child, what, _ in TAKEN],
)
async def test_a_field_taken_from_us_is_put_back(
    client: KubeClient,
    service: dict[str, Any],
    fleets: FleetApi,
    child: str,
    patch: dict[str, Any],
) -> None:
    manifest = rendered(service)[child.format(service["metadata"]["name"])]
    kind = BY_KIND[manifest["kind"]]
    before = (await apply(client, manifest, None, replicas=None)).child
    path = kind.path("default", manifest["metadata"]["name"])
    changed = fleets.rest.call("PATCH", f"{path}?fieldManager=other", patch, STRATEGIC)
    assert changed.status == 200, changed.message
    assert content(changed.body) != content(before)
    again = await apply(client, manifest, {**changed.body, "kind": kind.kind})
    assert again.written
    assert content(again.child) == content(before)
    assert not (await apply(client, manifest, again.child)).written


def content(item: dict[str, Any]) -> dict[str, Any]:
    """What is stored of an object but for who stored it and when."""
    kept = ("labels", "annotations", "ownerReferences")
    metadata = {key: item["metadata"].get(key) for key in kept}
    spec_ = {key: value for key, value in item.get("spec", {}).items() if key != "clusterIPs"}
    return {"metadata": metadata, "spec": spec_, "data": item.get("data")}


@pytest.mark.behaviour(
    "what others add beside our fields is theirs and is left alone",
    report="an annotation of another controller made the operator write without end",
)
@pytest.mark.parametrize(
    ("child", "patch"),
    [
        ("Deployment/{}", {"metadata": {"annotations": {"deployment.example/revision": "1"}}}),
        ("Deployment/{}", {"spec": {"template": {"spec": {"containers": [SIDECAR]}}}}),
        ("Deployment/{}", {"spec": {"paused": True}}),
        ("Service/{}", {"metadata": {"labels": {"team": "x"}}}),
        ("Service/{}", {"spec": {"ports": [{"name": "more", "port": 81}]}}),
        ("Service/{}", {"metadata": {"ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"}]}}),
        ("ConfigMap/{}-tunables", {"data": {"more": "x"}}),
    ],
    ids=["annotation", "container", "paused", "label", "port", "owner", "data"],
)  # fmt: skip
async def test_what_others_add_is_left_alone(
    client: KubeClient,
    service: dict[str, Any],
    fleets: FleetApi,
    child: str,
    patch: dict[str, Any],
) -> None:
    manifest = rendered(service)[child.format(service["metadata"]["name"])]
    kind = BY_KIND[manifest["kind"]]
    await apply(client, manifest, None)
    path = kind.path("default", manifest["metadata"]["name"])
    changed = fleets.rest.call("PATCH", f"{path}?fieldManager=other", patch, STRATEGIC)
    assert changed.status == 200, changed.message
    assert not (await apply(client, manifest, {**changed.body, "kind": kind.kind})).written


@pytest.mark.parametrize("replicas", [0, 3])
async def test_a_deployment_is_made_with_its_replicas_and_they_are_nobodys(
    client: KubeClient, service: dict[str, Any], replicas: int
) -> None:
    name = service["metadata"]["name"]
    manifest = rendered(service)[f"Deployment/{name}"]
    made = (await apply(client, manifest, None, replicas=replicas)).child
    assert made["spec"]["replicas"] == replicas
    assert not is_claimed(made)
    assert not (await apply(client, manifest, made)).written


async def test_apply_over_an_older_state_fails(
    client: KubeClient, service: dict[str, Any], fleets: FleetApi
) -> None:
    name = service["metadata"]["name"]
    old = (await apply(client, rendered(service)[f"Deployment/{name}"], None)).child
    path = f"/apis/apps/v1/namespaces/default/deployments/{name}"
    fleets.rest.call("PATCH", path, {"metadata": {"labels": {"x": "y"}}}, MERGE)
    other = rendered(service, resources={"requests": {"cpu": "2"}})[f"Deployment/{name}"]
    with pytest.raises(ConflictError):
        await apply(client, other, old)


async def test_an_object_of_someone_else_is_never_taken_over(
    client: KubeClient, service: dict[str, Any], fleets: FleetApi
) -> None:
    name = service["metadata"]["name"]
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"{name}-admin"}}
    fleets.rest.call("POST", "/api/v1/namespaces/default/secrets", body)
    live = await fetch(client, SECRET, "default", f"{name}-admin")
    with pytest.raises(ForeignChildError, match=f"Secret {name}-admin exists and belongs"):
        await apply(client, rendered(service)[f"Secret/{name}-admin"], live)


async def test_a_missing_child_is_made_but_never_written_over(
    client: KubeClient, service: dict[str, Any]
) -> None:
    name = service["metadata"]["name"]
    manifest = rendered(service)[f"Secret/{name}-admin"]
    newer = (await apply(client, manifest, None)).child
    older = {**manifest, "stringData": {"token": "of a leader that was paused"}}
    with pytest.raises(ConflictError, match="already exists"):
        await apply(client, older, None)
    assert await fetch(client, SECRET, "default", f"{name}-admin") == newer


async def test_a_child_whose_making_was_cut_short_is_finished(
    client: KubeClient, service: dict[str, Any]
) -> None:
    name = service["metadata"]["name"]
    manifest = rendered(service)[f"Deployment/{name}"]
    posted = await client.write(
        "POST", DEPLOYMENT.path("default"), manifest, fieldManager="paceline"
    )
    finished = await apply(client, manifest, posted)
    assert (finished.written, is_claimed(finished.child)) == (True, False)
    assert not (await apply(client, manifest, finished.child)).written


async def test_a_child_of_the_deleted_object_of_the_same_name_is_waited_for(
    client: KubeClient, service: dict[str, Any]
) -> None:
    name = service["metadata"]["name"]
    left = (await apply(client, rendered(service)[f"ConfigMap/{name}-tunables"], None)).child
    again = {**service, "metadata": {**service["metadata"], "uid": "another"}}
    with pytest.raises(ConflictError, match=f"of the deleted {name} is not yet gone") as caught:
        await apply(client, rendered(again)[f"ConfigMap/{name}-tunables"], left)
    assert not isinstance(caught.value, ForeignChildError)


async def test_apply_owns_no_replicas_and_keeps_those_of_scale(
    client: KubeClient, service: dict[str, Any]
) -> None:
    name = service["metadata"]["name"]
    first = await apply(client, rendered(service)[f"Deployment/{name}"], None)
    assert foreign_owner(first.child) is None
    await write_scale(client, await read_scale(client, "default", name), 5)
    live = await fetch(client, DEPLOYMENT, "default", name)
    assert live is not None
    other = rendered(service, resources={"requests": {"cpu": "2"}})[f"Deployment/{name}"]
    again = await apply(client, other, live)
    assert again.child["spec"]["replicas"] == 5
    assert foreign_owner(again.child) is None


async def test_kubectl_scale_is_seen_as_a_foreign_write_until_we_write_again(
    client: KubeClient, service: dict[str, Any], fleets: FleetApi
) -> None:
    name = service["metadata"]["name"]
    await apply(client, rendered(service)[f"Deployment/{name}"], None)
    await write_scale(client, await read_scale(client, "default", name), 2)
    fleets.server.kubectl("scale", f"deployment/{name}", "--replicas=4")
    live = await fetch(client, DEPLOYMENT, "default", name)
    assert live is not None
    assert foreign_owner(live) == "kubectl"
    await write_scale(client, await read_scale(client, "default", name), 2)
    live = await fetch(client, DEPLOYMENT, "default", name)
    assert live is not None
    assert foreign_owner(live) is None


async def test_scale_over_an_older_state_fails(
    client: KubeClient, service: dict[str, Any], fleets: FleetApi
) -> None:
    name = service["metadata"]["name"]
    await apply(client, rendered(service)[f"Deployment/{name}"], None)
    old = await read_scale(client, "default", name)
    fleets.server.kubectl("scale", f"deployment/{name}", "--replicas=3")
    with pytest.raises(ConflictError):
        await write_scale(client, old, 7)
    assert (await read_scale(client, "default", name)).replicas == 3


async def test_status_over_an_older_object_fails(
    client: KubeClient, service: dict[str, Any], fleets: FleetApi
) -> None:
    name = service["metadata"]["name"]
    await write_status(client, INFERENCE_SERVICE, service, {"replicas": 1})
    with pytest.raises(ConflictError):
        await write_status(client, INFERENCE_SERVICE, service, {"replicas": 2})
    assert fleets.rest.call("GET", f"{COLLECTION}/{name}").body["status"]["replicas"] == 1


async def test_status_is_replaced_whole_and_spec_untouched(
    client: KubeClient, service: dict[str, Any]
) -> None:
    first = await write_status(
        client, INFERENCE_SERVICE, service, {"replicas": 1, "memory": {"a": 1}}
    )
    second = await write_status(client, INFERENCE_SERVICE, first, {"replicas": 2})
    assert second["status"] == {"replicas": 2}
    assert second["metadata"]["generation"] == service["metadata"]["generation"]


async def test_the_guard_stands_before_every_write(
    client: KubeClient, service: dict[str, Any]
) -> None:
    def refuse() -> None:
        raise LeaseLostError("gone")

    client.guard = refuse
    with pytest.raises(LeaseLostError):
        await write_status(client, INFERENCE_SERVICE, service, {"replicas": 1})
    assert await client.get(INFERENCE_SERVICE.path("default", service["metadata"]["name"]))


def stop_at_the_guard(client: KubeClient, meanwhile: Callable[[], Reply]) -> None:
    """Stop the process between the guard and the request, while another one leads and writes."""

    def guard() -> None:
        client.guard = lambda: None
        done = meanwhile()
        assert done.status in (200, 201), done.message

    client.guard = guard


def with_image(service: dict[str, Any], image: str) -> dict[str, Any]:
    name, engine = service["metadata"]["name"], {"device": {"type": "Simulated"}, "image": image}
    return rendered(service, engine=engine)[f"Deployment/{name}"]


def image_of(deployment: dict[str, Any]) -> str:
    return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])


@pytest.mark.parametrize("exists", [True, False])
async def test_a_child_already_past_the_guard_yields_to_the_next_leader(
    client: KubeClient, service: dict[str, Any], fleets: FleetApi, exists: bool
) -> None:
    path = DEPLOYMENT.path("default", service["metadata"]["name"])
    live = (await apply(client, with_image(service, "engine:1"), None)).child if exists else None
    newer, older = with_image(service, "engine:3"), with_image(service, "engine:2")
    change = {"spec": {"template": newer["spec"]["template"]}}
    rest, collection = fleets.rest, DEPLOYMENT.path("default")
    stop_at_the_guard(
        client,
        lambda: (
            rest.call("PATCH", path, change, MERGE)
            if exists
            else rest.call("POST", collection, newer)
        ),
    )
    with pytest.raises(ConflictError):
        await apply(client, older, live)
    assert image_of(await client.get(path)) == "engine:3"


async def test_a_scale_already_past_the_guard_yields_to_the_next_leader(
    client: KubeClient, service: dict[str, Any], fleets: FleetApi
) -> None:
    name = service["metadata"]["name"]
    await apply(client, with_image(service, "engine:1"), None)
    read = await read_scale(client, "default", name)
    path, body = DEPLOYMENT.path("default", name), {"spec": {"replicas": 5}}
    stop_at_the_guard(client, lambda: fleets.rest.call("PATCH", path, body, MERGE))
    with pytest.raises(ConflictError):
        await write_scale(client, read, 7)
    assert (await read_scale(client, "default", name)).replicas == 5


async def test_a_status_already_past_the_guard_yields_to_the_next_leader(
    client: KubeClient, service: dict[str, Any], fleets: FleetApi
) -> None:
    path = f"{COLLECTION}/{service['metadata']['name']}"
    body = {"status": {"replicas": 2}}
    stop_at_the_guard(client, lambda: fleets.rest.call("PATCH", f"{path}/status", body, MERGE))
    with pytest.raises(ConflictError):
        await write_status(client, INFERENCE_SERVICE, service, {"replicas": 1})
    assert fleets.rest.call("GET", path).body["status"]["replicas"] == 2


async def test_children_are_found_by_label(client: KubeClient, service: dict[str, Any]) -> None:
    name = service["metadata"]["name"]
    for manifest in rendered(service).values():
        await apply(client, manifest, None)
    found = await fetch_children(client, CONFIG_MAP, "default", name)
    assert {each["metadata"]["name"] for each in found} == {f"{name}-tunables", f"{name}-proxy"}
    assert all(each["kind"] == "ConfigMap" for each in found)
    assert all(ANNOTATION_APPLIED in each["metadata"]["annotations"] for each in found)


async def test_errors_are_typed_and_say_which_request(client: KubeClient) -> None:
    with pytest.raises(NotFoundError, match=r"GET .*/absent: 404"):
        await client.get(INFERENCE_SERVICE.path("default", "absent"))
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "x"}, "spec": {}}
    with pytest.raises(InvalidError, match=r"model\.uri"):
        await client.write("POST", INFERENCE_SERVICE.path("default"), body)


async def test_a_missing_right_is_said(fleets: FleetApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(fleets.server.kubeconfig_for("nobody")))
    async with KubeClient(await load_configuration()) as stranger:
        with pytest.raises(ForbiddenError, match="nobody"):
            await stranger.get(INFERENCE_SERVICE.path("default"))
