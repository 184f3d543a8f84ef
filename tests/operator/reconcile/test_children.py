"""Children that someone deletes, changes or forges, on a real API server.

Lists repair what watches miss only every five minutes: what holds within a minute here is seen
by its watch, or looked for.
"""

from __future__ import annotations

import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from paceline_operator.domain.contract import ADMIN_PORT
from tests.support.engine_pods import PODS, delete_pod, template_hash
from tests.support.fleet import pod_object, pod_status
from tests.support.fleet_api import FleetApi, inference_service
from tests.support.loopback import loopback
from tests.support.operator_process import OperatorProcess
from tests.support.rest import MERGE, Rest
from tests.support.service import CORE, DEPLOYMENTS, condition, paths, replicas, versions

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(360)]

SOON_S = 60.0
SPEC: dict[str, Any] = {
    "engine": {"device": {"type": "Simulated"}},
    "slos": [{"name": "ttft", "metric": "TTFT", "targetMs": 500}],
    "scaling": {"mode": "Off"},
}
THEIRS = "a-token-of-someone-else"


def create(fleets: FleetApi, name: str) -> None:
    made = fleets.create(inference_service(name, SPEC))
    assert made.status == 201, made.message


def created(fleets: FleetApi, operator: OperatorProcess, name: str) -> None:
    """A service with all its children, and nothing left to do for it."""
    create(fleets, name)
    operator.eventually(lambda: len(versions(fleets.rest, name)) == len(paths(name)))
    operator.eventually(lambda: condition(fleets.rest, name, "Ready"))
    operator.eventually(lambda: replicas(fleets.rest, name) == 1)


def secret_path(name: str) -> str:
    return f"{CORE}/secrets/{name}-admin"


def metadata(rest: Rest, path: str) -> dict[str, Any]:
    """Of the object at a path; empty where there is none."""
    found: dict[str, Any] = rest.call("GET", path).body.get("metadata", {})
    return found


def token(rest: Rest, name: str) -> str:
    return b64decode(rest.call("GET", secret_path(name)).body["data"]["token"]).decode()


def theirs(name: str, kind: str = "Secret", **content: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **content}


def stalled_by_name(fleets: FleetApi, operator: OperatorProcess, name: str) -> str:
    found = operator.eventually(
        lambda: (c := condition(fleets.rest, name, "Stalled")).get("reason") == "NameTaken" and c,
        SOON_S,
    )
    assert found
    assert found["status"] == "True"
    return str(found["message"])


@pytest.mark.behaviour(
    "any child that someone deletes is soon back, the Secret with the same token",
    report="a deleted admin Secret came back only after five minutes",
)
def test_a_deleted_child_is_back_soon(fleets: FleetApi, operator: OperatorProcess) -> None:
    rest, name = fleets.rest, "bereft"
    created(fleets, operator, name)
    known = token(rest, name)
    before = {path: metadata(rest, path)["uid"] for path in paths(name)[1:]}
    for path in before:
        assert rest.call("DELETE", path).status == 200
    for path, uid in before.items():
        operator.eventually(
            lambda path=path, uid=uid: metadata(rest, path).get("uid") not in (None, uid), SOON_S
        )
    assert token(rest, name) == known


@pytest.mark.parametrize(
    ("name", "change"),
    [("unmarked", dict.fromkeys), ("claimed", lambda _: {"paceline.dev/service": "another"})],
)
def test_a_child_that_lost_its_labels_gets_them_back(
    fleets: FleetApi, operator: OperatorProcess, name: str, change: Callable[[Any], Any]
) -> None:
    rest = fleets.rest
    created(fleets, operator, name)
    before = {path: metadata(rest, path) for path in paths(name)[1:]}
    for path, known in before.items():
        body = {"metadata": {"labels": change(known["labels"])}}
        assert rest.call("PATCH", path, body, MERGE).status == 200
    for path, known in before.items():
        operator.eventually(
            lambda path=path, known=known: metadata(rest, path).get("labels") == known["labels"],
            SOON_S,
        )
        assert metadata(rest, path)["uid"] == known["uid"]


@pytest.mark.behaviour(
    "a service whose child's name is taken goes on within seconds once the name is free",
    report="it went on minutes later: the foreign Secret was read every five minutes",
)
@pytest.mark.parametrize(
    ("name", "path", "foreign"),
    [
        (
            "taken-a", f"{CORE}/secrets",
            theirs("taken-a-admin", data={"token": b64encode(THEIRS.encode()).decode()}),
        ),
        ("taken-b", f"{CORE}/configmaps", theirs("taken-b-tunables", "ConfigMap")),
        (
            "taken-c", f"{CORE}/services",
            theirs("taken-c", "Service", spec={"ports": [{"port": 80}]}),
        ),
    ],
    ids=["secret", "config map", "service"],
)  # fmt: skip
def test_a_name_that_becomes_free_is_used_soon(
    fleets: FleetApi, operator: OperatorProcess, name: str, path: str, foreign: dict[str, Any]
) -> None:
    rest = fleets.rest
    theirs_at = f"{path}/{foreign['metadata']['name']}"
    assert rest.call("POST", path, foreign).status == 201
    version = rest.call("GET", theirs_at).body["metadata"]["resourceVersion"]
    create(fleets, name)
    said = stalled_by_name(fleets, operator, name)
    assert f"{foreign['kind']} {foreign['metadata']['name']} exists and belongs" in said
    assert rest.call("GET", theirs_at).body["metadata"]["resourceVersion"] == version
    assert rest.call("GET", f"{DEPLOYMENTS}/{name}").status == 404
    assert rest.call("DELETE", theirs_at).status == 200
    operator.eventually(lambda: replicas(rest, name) == 1, SOON_S)
    operator.eventually(lambda: condition(rest, name, "Stalled")["status"] == "False", SOON_S)
    assert token(rest, name) != THEIRS


@contextmanager
def listening(ip: str) -> Iterator[list[str]]:
    """An admin port that refuses everybody; yields the tokens it is shown."""
    shown: list[str] = []

    class Refusal(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            shown.append(self.headers.get("Authorization", "").removeprefix("Bearer "))
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_PUT = do_GET  # noqa: N815 - the name is the protocol's

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = HTTPServer((ip, ADMIN_PORT), Refusal)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield shown
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def serving_pod(rest: Rest, service: str, ip: str) -> str:
    item = pod_object(service, f"{service}-pod", template=template_hash(rest, service))
    made = rest.call("POST", PODS, {k: v for k, v in item.items() if k != "status"})
    assert made.status == 201, made.message
    name = str(item["metadata"]["name"])
    status = {"status": pod_status(ip=ip, ready=True)}
    assert rest.call("PATCH", f"{PODS}/{name}/status", status, MERGE).status == 200
    return name


def test_engines_are_never_shown_the_token_of_someone_else(
    fleets: FleetApi, operator: OperatorProcess
) -> None:
    """Of a fleet that runs, someone makes the Secret their own."""
    rest, name, ip = fleets.rest, "robbed", loopback(200)
    created(fleets, operator, name)
    known = token(rest, name)
    with listening(ip) as shown:
        pod = serving_pod(rest, name, ip)
        operator.eventually(lambda: known in shown)
        body = {
            "metadata": {"ownerReferences": None},
            "data": {"token": b64encode(THEIRS.encode()).decode()},
        }
        assert rest.call("PATCH", secret_path(name), body, MERGE).status == 200
        assert f"Secret {name}-admin exists" in stalled_by_name(fleets, operator, name)
        before = len(shown)
        operator.eventually(lambda: len(shown) >= before + 3)
        assert set(shown) == {known}
        assert token(rest, name) == THEIRS
        assert rest.call("DELETE", secret_path(name)).status == 200
        operator.eventually(lambda: rest.call("GET", secret_path(name)).status == 200, SOON_S)
        assert token(rest, name) == known
        delete_pod(rest, pod)
    fleets.delete(name)


def test_a_token_that_is_changed_in_our_own_secret_is_used_soon(
    fleets: FleetApi, operator: OperatorProcess
) -> None:
    rest, name, ip = fleets.rest, "rotated", loopback(201)
    created(fleets, operator, name)
    with listening(ip) as shown:
        pod = serving_pod(rest, name, ip)
        operator.eventually(lambda: shown)
        body = {"data": {"token": b64encode(b"another").decode()}}
        assert rest.call("PATCH", secret_path(name), body, MERGE).status == 200
        operator.eventually(lambda: "another" in shown, SOON_S)
        assert token(rest, name) == "another"
        delete_pod(rest, pod)
    fleets.delete(name)
