"""What others do to the children of an object, to its engines, and to the object's own depth.

The API server and the operator are real; no pod runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.fleet_api import COLLECTION, FleetApi, inference_service
from tests.support.operator_process import OperatorProcess
from tests.support.rest import MERGE, Reply
from tests.support.service import CORE, DEPLOYMENTS, condition, paths, replicas, status, versions

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(360)]

SPEC: dict[str, Any] = {
    "engine": {"device": {"type": "Simulated"}},
    "scaling": {"mode": "Off"},
}
SOON_S = 60.0


def create(fleets: FleetApi, operator: OperatorProcess, name: str, **fields: Any) -> None:
    """Make a service, and wait until its status tells of it."""
    made = fleets.create(inference_service(name, {**SPEC, **fields}))
    assert made.status == 201, made.message
    operator.eventually(lambda: status(fleets.rest, name).get("memory", {}).get("engines"))


def get(fleets: FleetApi, path: str) -> dict[str, Any]:
    return fleets.rest.call("GET", path).body


def patch(fleets: FleetApi, path: str, body: dict[str, Any]) -> None:
    done = fleets.rest.call("PATCH", f"{path}?fieldManager=stranger", body, MERGE)
    assert done.status == 200, done.message


def seen_since(fleets: FleetApi, collection: str, version: str) -> list[dict[str, Any]]:
    """Every state of a collection's objects from a version on, as the server tells watches."""
    url = f"{fleets.rest.url}{collection}?watch=1&resourceVersion={version}&timeoutSeconds=1"
    request = urllib.request.Request(url)  # noqa: S310 - loopback
    with urllib.request.urlopen(request, context=fleets.rest.trust, timeout=30) as reply:  # noqa: S310
        return [json.loads(line)["object"] for line in reply]


@pytest.mark.behaviour(
    "a fleet of no replicas never asks for a pod, not even while it is made",
    report="a Deployment made without replicas asks for one pod until it is scaled to 0",
)
@pytest.mark.parametrize(
    ("name", "fields", "wanted"),
    [
        ("zero", {"replicas": 0}, 0),
        ("zero-recommend", {"replicas": 0, "scaling": {"mode": "Recommend"}}, 0),
        # Nobody would notice a request for it: the autopilot keeps one.
        ("zero-auto", {"replicas": 0, "scaling": {"minReplicas": 0, "maxReplicas": 2}}, 1),
        ("three", {"replicas": 3}, 3),
    ],
)
def test_a_fleet_is_made_with_its_replicas(
    fleets: FleetApi, operator: OperatorProcess, name: str, fields: dict[str, Any], wanted: int
) -> None:
    version = get(fleets, DEPLOYMENTS)["metadata"]["resourceVersion"]
    create(fleets, operator, name, **fields)
    operator.eventually(lambda: status(fleets.rest, name).get("desiredReplicas") == wanted)
    # Deleted by someone, it is made anew.
    assert fleets.rest.call("DELETE", f"{DEPLOYMENTS}/{name}").status == 200
    operator.eventually(lambda: replicas(fleets.rest, name) is not None)
    states = seen_since(fleets, DEPLOYMENTS, version)
    asked = [each["spec"]["replicas"] for each in states if each["metadata"]["name"] == name]
    assert len(asked) > 2
    assert set(asked) == {wanted}


@pytest.mark.behaviour(
    "routing is changed to and fro: the proxy is scaled to 0 and kept, and the Service leads to it "
    "again only once it serves",
    report="to take a proxy away, the operator could delete any Deployment and ConfigMap",
)
def test_routing_to_and_fro(fleets: FleetApi, operator: OperatorProcess) -> None:
    name = "routed"
    proxy, config = f"{DEPLOYMENTS}/{name}-proxy", f"{CORE}/configmaps/{name}-proxy"
    create(fleets, operator, name)
    operator.eventually(lambda: len(versions(fleets.rest, name)) == len(paths(name)))
    known = {path: get(fleets, path)["metadata"]["uid"] for path in (proxy, config)}
    # Even of a proxy that someone else has scaled.
    fleets.server.kubectl("scale", "deployment", f"{name}-proxy", "--replicas=2")

    patch(fleets, f"{COLLECTION}/{name}", {"spec": {"routing": {"mode": "Service"}}})
    operator.eventually(lambda: get(fleets, proxy)["spec"]["replicas"] == 0, SOON_S)
    assert leads_to(fleets, name) == "engine"
    assert {path: get(fleets, path)["metadata"]["uid"] for path in known} == known

    patch(fleets, f"{COLLECTION}/{name}", {"spec": {"routing": {"mode": "Proxy"}}})
    operator.eventually(lambda: get(fleets, proxy)["spec"]["replicas"] == 1, SOON_S)
    assert leads_to(fleets, name) == "engine"
    serving = {"status": {"replicas": 1, "readyReplicas": 1}}
    patch(fleets, f"{proxy}/status", serving)
    operator.eventually(lambda: leads_to(fleets, name) == "proxy", SOON_S)


def test_what_is_deleted_of_a_proxy_at_rest_is_not_made_anew(
    fleets: FleetApi, operator: OperatorProcess
) -> None:
    name = "tidied"
    proxy, config = f"{DEPLOYMENTS}/{name}-proxy", f"{CORE}/configmaps/{name}-proxy"
    create(fleets, operator, name)
    patch(fleets, f"{COLLECTION}/{name}", {"spec": {"routing": {"mode": "Service"}}})
    operator.eventually(lambda: get(fleets, proxy)["spec"]["replicas"] == 0, SOON_S)
    for path in (proxy, config):
        assert fleets.rest.call("DELETE", path).status == 200
    # A change that it acts upon after that.
    patch(fleets, f"{COLLECTION}/{name}", {"spec": {"replicas": 3}})
    operator.eventually(lambda: replicas(fleets.rest, name) == 3, SOON_S)
    assert {proxy, config} & set(versions(fleets.rest, name)) == set()


@pytest.mark.behaviour(
    "replicas that someone gives the proxy stay, a change of its template included; only a proxy "
    "of none is given one",
    report="a proxy scaled to 2 was cut to 1, and an autoscaler on it was fought without end",
)
def test_the_proxys_replicas_are_whose_who_scales_it(
    fleets: FleetApi, operator: OperatorProcess
) -> None:
    name = "scaled"
    proxy = f"{DEPLOYMENTS}/{name}-proxy"
    create(fleets, operator, name)
    operator.eventually(lambda: len(versions(fleets.rest, name)) == len(paths(name)))

    def config_of() -> str:
        template = get(fleets, proxy)["spec"]["template"]
        return str(template["metadata"]["annotations"]["paceline.dev/config"])

    for number, drain_s in ((2, 61), (3, 62), (1, 63), (4, 64)):
        before = config_of()
        fleets.server.kubectl("scale", "deployment", f"{name}-proxy", f"--replicas={number}")
        rollout = {"rollout": {"drainSeconds": drain_s}}
        patch(fleets, f"{COLLECTION}/{name}", {"spec": rollout})
        operator.eventually(lambda before=before: config_of() != before, SOON_S)
        assert get(fleets, proxy)["spec"]["replicas"] == number
    fleets.server.kubectl("scale", "deployment", f"{name}-proxy", "--replicas=0")
    operator.eventually(lambda: get(fleets, proxy)["spec"]["replicas"] == 1, SOON_S)
    assert condition(fleets.rest, name, "Conflict")["status"] == "False"


@pytest.mark.behaviour(
    "whoever takes the same field again and again is named, and answered once a minute",
    report="two writers of one field wrote without end, ten times a second",
)
def test_a_field_that_is_taken_again_and_again(fleets: FleetApi, operator: OperatorProcess) -> None:
    name = "contested"
    create(fleets, operator, name)
    path = f"{CORE}/services/{name}-pods"
    operator.eventually(lambda: len(versions(fleets.rest, name)) == len(paths(name)))
    known = get(fleets, path)["metadata"]["labels"]["app.kubernetes.io/name"]

    def label() -> str:
        return str(get(fleets, path)["metadata"]["labels"]["app.kubernetes.io/name"])

    began_s = time.monotonic()
    for _ in range(2):
        patch(fleets, path, {"metadata": {"labels": {"app.kubernetes.io/name": "theirs"}}})
        operator.eventually(lambda: label() == known, SOON_S)
    assert condition(fleets.rest, name, "Conflict")["status"] == "False"
    patch(fleets, path, {"metadata": {"labels": {"app.kubernetes.io/name": "theirs"}}})
    operator.eventually(
        lambda: condition(fleets.rest, name, "Conflict")["reason"] == "ForeignChange", SOON_S
    )
    said = condition(fleets.rest, name, "Conflict")["message"]
    assert f"Service {name}-pods by stranger" in said
    # A machine may be so slow that the minute has passed.
    assert label() == "theirs" or time.monotonic() - began_s > 60
    # It is only that which waits: another child, and a change of ours, are written at once.
    other = f"{CORE}/services/{name}"
    patch(fleets, other, {"spec": {"selector": {"x": "y"}}})
    operator.eventually(lambda: "x" not in get(fleets, other)["spec"]["selector"], SOON_S)


@pytest.mark.behaviour(
    "a reference to its service that someone removes from a child is put back",
    report="a child without its ownerReference was NameTaken, and a fleet that served not Ready",
)
def test_a_reference_that_someone_removes_is_put_back(
    fleets: FleetApi, operator: OperatorProcess
) -> None:
    name = "unowned"
    create(fleets, operator, name)
    operator.eventually(lambda: len(versions(fleets.rest, name)) == len(paths(name)))
    token = get(fleets, f"{CORE}/secrets/{name}-admin")["data"]
    for path in paths(name)[1:]:
        before = get(fleets, path)["metadata"]
        patch(fleets, path, {"metadata": {"ownerReferences": None}})
        operator.eventually(
            lambda path=path, before=before: (
                get(fleets, path)["metadata"].get("ownerReferences") == before["ownerReferences"]
            ),
            SOON_S,
        )
        assert get(fleets, path)["metadata"]["uid"] == before["uid"]
    assert get(fleets, f"{CORE}/secrets/{name}-admin")["data"] == token
    # One that has another controller by now is theirs.
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x", "controller": True}
    path = f"{CORE}/configmaps/{name}-tunables"
    patch(fleets, path, {"metadata": {"ownerReferences": [theirs]}})
    operator.eventually(
        lambda: condition(fleets.rest, name, "Stalled")["reason"] == "NameTaken", SOON_S
    )
    (left,) = get(fleets, path)["metadata"]["ownerReferences"]
    assert left["uid"] == "x"


def leads_to(fleets: FleetApi, name: str) -> str:
    found: str = get(fleets, f"{CORE}/services/{name}")["spec"]["selector"][
        "paceline.dev/component"
    ]
    return found


@pytest.mark.behaviour(
    "nothing that someone writes on a child becomes what is wanted: it is put back in seconds",
    report="the engine image in an annotation of the Deployment was taken over as the wanted one",
)
def test_what_someone_writes_on_children_is_put_back(
    fleets: FleetApi, operator: OperatorProcess
) -> None:
    name = "written"
    create(fleets, operator, name)
    operator.eventually(lambda: len(versions(fleets.rest, name)) == len(paths(name)))
    known = status(fleets.rest, name)["memory"]["engines"]
    engines, proxy = f"{DEPLOYMENTS}/{name}", f"{DEPLOYMENTS}/{name}-proxy"
    service = f"{CORE}/services/{name}"
    before = {path: get(fleets, path)["spec"] for path in (engines, proxy, service)}
    assert before[proxy]["replicas"] == 1

    marks = {
        "paceline.dev/engine-image": "evil:1", "paceline.dev/startup-hash": known["startup"],
        "paceline.dev/applied": "x",
    }  # fmt: skip
    container = {**before[engines]["template"]["spec"]["containers"][0], "image": "evil:1"}
    pod_spec = {"containers": [container], "automountServiceAccountToken": None}
    rolling = {"maxSurge": 0, "maxUnavailable": 2}
    patch(fleets, engines, {
        "metadata": {"annotations": marks},
        "spec": {"template": {"spec": pod_spec}, "strategy": {"rollingUpdate": rolling}},
    })  # fmt: skip
    patch(fleets, service, {"spec": {"selector": {"x": "y"}}})
    patch(fleets, proxy, {"metadata": {"labels": {"paceline.dev/service": "other"}}})
    fleets.server.kubectl("scale", "deployment", f"{name}-proxy", "--replicas=0")
    for path, spec in before.items():
        operator.eventually(lambda path=path, spec=spec: get(fleets, path)["spec"] == spec, SOON_S)
    # Nor, while it runs, what someone writes into the status. A process that follows believes
    # that; it takes a right that the chart gives the operator alone.
    forged = {"status": {"memory": {"engines": {"image": "evil:1", "startup": known["startup"]}}}}
    patch(fleets, f"{COLLECTION}/{name}/status", forged)
    operator.eventually(lambda: status(fleets.rest, name)["memory"]["engines"] == known, SOON_S)
    assert get(fleets, engines)["spec"] == before[engines]
    labels = get(fleets, proxy)["metadata"]["labels"]
    assert labels["paceline.dev/service"] == name
    assert status(fleets.rest, name)["memory"]["engines"] == known


@pytest.mark.behaviour(
    "an object nested as deeply as a server stores it stops nothing: it is refused in one line, "
    "and others go on",
    report="an object of 900 and one of 2,000 levels in spec.template froze the operator",
)
@pytest.mark.parametrize("levels", [60, 900, 2_000, 9_900])
def test_a_deeply_nested_object_stops_nothing(
    fleets: FleetApi, operator: OperatorProcess, levels: int
) -> None:
    name, other = f"deep-{levels}", f"beside-{levels}"
    create(fleets, operator, other)
    made = post_nested(fleets, name, levels)
    assert made.status == 201, made.message
    stalled = operator.eventually(
        lambda: (c := stalled_of(fleets, name)).get("status") == "True" and c
    )
    assert stalled
    assert len(stalled["message"].splitlines()) == 1
    if levels > 64:
        assert stalled["reason"] == "InvalidTemplate"
        assert "nested more than 64 levels deep" in stalled["message"]
    shown = plug_in(fleets, "status", name)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert stalled["message"][:40] in shown.stdout
    # Others are reconciled while it exists, new ones and changed ones.
    patch(fleets, f"{COLLECTION}/{other}", {"spec": {"replicas": 2}})
    operator.eventually(lambda: replicas(fleets.rest, other) == 2, SOON_S)
    create(fleets, operator, f"after-{levels}")
    # It goes on by itself once mended, and is forgotten once deleted.
    patch(fleets, f"{COLLECTION}/{name}", {"spec": {"template": None}})
    operator.eventually(
        lambda: condition(fleets.rest, name, "Stalled")["status"] == "False", SOON_S
    )
    for each in (name, other, f"after-{levels}"):
        assert fleets.delete(each).status == 200


def plug_in(fleets: FleetApi, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).parent / "kubectl-paceline"
    environment = {**os.environ, "KUBECONFIG": str(fleets.server.kubeconfig)}
    return subprocess.run(
        [str(program), *arguments], env=environment, capture_output=True, text=True, check=False
    )


def stalled_of(fleets: FleetApi, name: str) -> dict[str, Any]:
    """Its condition `Stalled`, read without reading the object, which json refuses to."""
    path = '-ojsonpath={.status.conditions[?(@.type=="Stalled")]}'
    text = fleets.server.kubectl("get", "infs", name, path)
    found: dict[str, Any] = json.loads(text or "{}")
    return found


def post_nested(fleets: FleetApi, name: str, levels: int) -> Reply:
    """Create a service whose template is nested; as text, for json would refuse to write it."""
    template = '{"a":' * levels + "1" + "}" * levels
    whole = json.dumps(inference_service(name, {**SPEC, "template": {"deep": "HERE"}}))
    return fleets.rest.send("POST", COLLECTION, whole.replace('"HERE"', template).encode())
