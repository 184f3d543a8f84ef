"""The process: bad starts, probes, and two of them on one lease."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
from aiohttp import connector, web
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.test_utils import TestServer
from kubernetes_asyncio.client import Configuration
from typing_extensions import override

from paceline_operator import main
from paceline_operator.handlers import watch
from paceline_operator.kube.client import KubeClient, Object
from paceline_operator.kube.errors import ForbiddenError, UnavailableError
from paceline_operator.kube.lease import LeaderLease
from paceline_operator.reconcile.context import Context
from paceline_operator.reconcile.recording import Unrecorded
from paceline_operator.settings import Environment, Settings
from tests.support.fleet_api import DEFINITIONS, FleetApi, inference_service
from tests.support.operator_process import operator_process
from tests.support.rest import MERGE, Rest

EXIT_LEASE_LOST = 3
EXIT_API = 4
LEASE_S = "3"
NAMESPACE = "failover"
GROUP = f"/apis/paceline.dev/v1alpha1/namespaces/{NAMESPACE}/inferenceservices"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
SPEC: dict[str, Any] = {
    "engine": {"device": {"type": "Simulated"}},
    "scaling": {"mode": "Off"},
    "routing": {"mode": "Service"},
}


def started(**environment: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, "PACELINE_HTTP_PORT": "0", **environment}
    return subprocess.run(
        [sys.executable, "-m", "paceline_operator.main"],
        env=given, capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("workers: 0", "workers: Input should be greater than or equal to 1"),
        ("workers: [", "is not YAML"),
        ("maxMode: Always", "maxMode: Input should be 'Off', 'Recommend' or 'Auto'"),
    ],
)
def test_bad_settings_end_with_one_line(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(content)
    done = started(PACELINE_SETTINGS=str(file))
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_no_cluster_ends_with_one_line(tmp_path: Path) -> None:
    done = started(KUBECONFIG=str(tmp_path / "absent"))
    assert done.returncode == 2
    assert "no cluster to talk to" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_bad_variable_ends_with_one_line() -> None:
    done = started(PACELINE_HTTP_PORT="many")
    assert done.returncode == 2
    assert "paceline_http_port" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("level", ["verbose", "", "10"])
def test_a_level_of_the_log_that_there_is_not_ends_with_one_line(level: str) -> None:
    done = started(PACELINE_LOG_LEVEL=level)
    assert done.returncode == 2
    said = f"paceline-operator: environment: PACELINE_LOG_LEVEL: {level.upper()!r} is no level"
    assert done.stderr.startswith(said)
    assert len(done.stderr.splitlines()) == 1


class Unkept(LeaderLease):
    """A lease whose keeping fails in a way nobody thought of."""

    def __init__(self) -> None:
        """It needs no server."""

    @override
    async def keep(self) -> None:
        raise ValueError("not thought of")


async def test_a_lease_that_is_not_kept_any_more_ends_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    await main._keep(Unkept())
    assert ended == [EXIT_LEASE_LOST]


class Blipping(KubeClient):
    """A server that is away, and answers at last."""

    def __init__(self, *failures: Exception) -> None:
        self._failures = list(failures)

    @override
    async def get(self, path: str, **query: str) -> Object:
        if self._failures:
            raise self._failures.pop(0)
        return {"resources": [{"name": "scaledobjects"}]}


async def test_a_server_that_is_away_for_a_moment_is_asked_again_what_kinds_there_are() -> None:
    ctx = SimpleNamespace(client=Blipping(UnavailableError("503")), has_keda=False)
    await asyncio.wait_for(main._learn_kinds(cast(Context, ctx)), 10)
    assert ctx.has_keda


@pytest.mark.parametrize(
    "error", [ForbiddenError("403 no right"), watch.WatchEndedError("403 no right")]
)
def test_what_the_server_refuses_ends_with_one_line(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def failing(*_: Any) -> None:
        raise error

    monkeypatch.setattr(main, "run", failing)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == EXIT_API
    assert capsys.readouterr().err == "paceline-operator: 403 no right\n"


@pytest.fixture(scope="module")
def namespace(fleets: FleetApi) -> str:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    assert fleets.rest.call("POST", "/api/v1/namespaces", body).status == 201
    return NAMESPACE


def settings(lease: str) -> dict[str, Any]:
    return {"watchNamespaces": [NAMESPACE], "leaseNamespace": NAMESPACE, "leaseName": lease}


@pytest.mark.apiserver
def test_probes_metrics_and_an_orderly_end(
    fleets: FleetApi, namespace: str, tmp_path: Path
) -> None:
    with operator_process(fleets.server.kubeconfig, tmp_path, "p", settings("probes")) as one:
        one.wait_for("leads by lease")
        assert one.get("/healthz") == (200, "ok")
        assert one.get("/readyz") == (200, "ok")
        assert "paceline_operator_queue_depth" in one.get("/metrics")[1]
        one.process.terminate()
        assert one.process.wait(20) == 0
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/probes"
    assert fleets.rest.call("GET", path).body["spec"].get("holderIdentity", "") == ""


def keda(fleets: FleetApi) -> None:
    """KEDA's kind, as far as it is watched."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": "ScaledObject", "plural": "scaledobjects", "singular": "scaledobject"}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": schema}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "scaledobjects.keda.sh"},
        "spec": {"group": "keda.sh", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    assert fleets.rest.call("POST", DEFINITIONS, body).status == 201
    path = "/apis/keda.sh/v1alpha1/scaledobjects"
    limit_s = time.monotonic() + 60.0
    while fleets.rest.call("GET", path).status != 200:
        assert time.monotonic() < limit_s
        time.sleep(0.1)


@pytest.mark.apiserver
@pytest.mark.behaviour(
    "KEDA's removal ends the leader with one line and its Lease given up; the next goes on without",
    report="removing KEDA ended the operator with a traceback and exit code 0",
)
def test_a_watched_kind_that_is_removed_ends_the_process_in_order(
    fleets: FleetApi, namespace: str, tmp_path: Path
) -> None:
    rest, given = fleets.rest, settings("keda")
    keda(fleets)
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/keda"
    with operator_process(fleets.server.kubeconfig, tmp_path, "keda", given) as one:
        one.wait_for("leads by lease")
        assert rest.call("POST", GROUP, inference_service("seen", SPEC)).status == 201
        one.eventually(lambda: rest.call("GET", f"{DEPLOYMENTS}/seen").status == 200)
        assert rest.call("DELETE", f"{DEFINITIONS}/scaledobjects.keda.sh").status == 200
        assert one.process.wait(60) == EXIT_API
        assert "Traceback" not in one.said()
        assert "answered 404 to /apis/keda.sh/v1alpha1/" in one.said().splitlines()[-1]
    assert rest.call("GET", lease).body["spec"]["holderIdentity"] == ""
    with operator_process(fleets.server.kubeconfig, tmp_path, "next", given) as after:
        body: dict[str, Any] = {"spec": {"replicas": 2}}
        assert rest.call("PATCH", f"{GROUP}/seen", body, MERGE).status == 200
        path = f"{DEPLOYMENTS}/seen"
        after.eventually(lambda: rest.call("GET", path).body["spec"]["replicas"] == 2)
    assert rest.call("DELETE", f"{GROUP}/seen").status == 200


@pytest.mark.behaviour(
    "of several operators one decides, and one that was overtaken ends",
    report="kubeai-project/kubeai#67: two controllers disagreed and replicas flapped",
)
@pytest.mark.apiserver
@pytest.mark.timeout(360)
def test_a_stopped_leader_is_replaced_and_ends_when_it_wakes(
    fleets: FleetApi, namespace: str, tmp_path: Path
) -> None:
    config, given = fleets.server.kubeconfig, settings("failover")
    rest = fleets.rest
    with (
        operator_process(config, tmp_path, "old", given, PACELINE_LEASE_SECONDS=LEASE_S) as old,
        operator_process(config, tmp_path, "new", given, PACELINE_LEASE_SECONDS=LEASE_S) as new,
    ):
        leader, other = (old, new) if leads(old, new) is old else (new, old)
        assert rest.call("POST", GROUP, inference_service("moved", SPEC)).status == 201
        leader.eventually(lambda: image(rest) == "paceline-engine:0.1.0")

        leader.pause()
        other.wait_for("leads by lease")
        other.eventually(lambda: change(rest, "engine:2"))
        other.eventually(lambda: image(rest) == "engine:2")
        # The old leader wakes to a change it would act on, and must not.
        change(rest, "engine:3")
        other.eventually(lambda: image(rest) == "engine:3")
        written = deployment(rest)["metadata"]["resourceVersion"]
        leader.resume()
        assert leader.process.wait(20) == EXIT_LEASE_LOST
        assert "lease failover" in leader.said()
        assert deployment(rest)["metadata"]["resourceVersion"] == written
        assert other.process.poll() is None


@pytest.mark.apiserver
@pytest.mark.behaviour(
    "a new default image restarts nothing: a fleet takes it with its next change",
    report="an operator upgrade rolled every fleet",
)
def test_a_new_default_image_waits_for_the_next_change(
    fleets: FleetApi, namespace: str, tmp_path: Path
) -> None:
    config, rest, given = fleets.server.kubeconfig, fleets.rest, settings("upgrade")
    path = f"{DEPLOYMENTS}/kept"

    def runs() -> str:
        found = rest.call("GET", path).body["spec"]["template"]["spec"]["containers"][0]["image"]
        return str(found)

    assert rest.call("POST", GROUP, inference_service("kept", SPEC)).status == 201
    with operator_process(config, tmp_path, "before", given) as before:
        before.eventually(lambda: pinned_image(rest) == "paceline-engine:0.1.0")
    newer = {**given, "engineImage": "paceline-engine:9"}
    with operator_process(config, tmp_path, "after", newer) as after:
        # It has looked at the fleet once it does what that asks for.
        body: dict[str, Any] = {"spec": {"replicas": 2}}
        assert rest.call("PATCH", f"{GROUP}/kept", body, MERGE).status == 200
        after.eventually(lambda: rest.call("GET", path).body["spec"]["replicas"] == 2)
        assert runs() == "paceline-engine:0.1.0"
        body = {"spec": {"engine": {"maxNumSeqs": 8}}}
        assert rest.call("PATCH", f"{GROUP}/kept", body, MERGE).status == 200
        after.eventually(lambda: runs() == "paceline-engine:9")
        after.eventually(lambda: pinned_image(rest) == "paceline-engine:9")
    assert rest.call("DELETE", f"{GROUP}/kept").status == 200


def pinned_image(rest: Rest) -> str | None:
    memory = rest.call("GET", f"{GROUP}/kept").body.get("status", {}).get("memory", {})
    return None if "engines" not in memory else str(memory["engines"]["image"])


def leads(*processes: Any) -> Any:
    """The one of several processes that leads."""
    return processes[0].eventually(
        lambda: next((p for p in processes if "leads by lease" in p.said()), None)
    )


def deployment(rest: Rest) -> dict[str, Any]:
    return rest.call("GET", f"{DEPLOYMENTS}/moved").body


def image(rest: Rest) -> str | None:
    found = deployment(rest).get("spec")
    return None if found is None else str(found["template"]["spec"]["containers"][0]["image"])


def change(rest: Rest, to: str) -> bool:
    body = {"spec": {"engine": {"image": to}}}
    return rest.call("PATCH", f"{GROUP}/moved", body, MERGE).status == 200


class NoLease(LeaderLease):
    """A lease that is always had; tells when it is given up."""

    def __init__(self, log: list[str]) -> None:
        self.refusal, self._log = "", log

    @override
    async def release(self) -> None:
        self._log.append("released")


async def test_the_recorder_ends_while_the_lease_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever leads next writes into the same directory."""
    log: list[str] = []

    async def nothing(*_: Any) -> None:
        """Goes well."""

    async def configuration() -> Configuration:
        return Configuration()

    class Ending(Unrecorded):
        @override
        def end(self, timeout_s: float) -> None:
            log.append("recorded")

    for name, made in {
        "load_configuration": configuration,
        "LeaderLease": lambda *_: NoLease(log),
        "_stand_by": nothing,
        "_lead": nothing,
        "_recorder": lambda *_: Ending(),
    }.items():
        monkeypatch.setattr(main, name, made)
    # The signals are pytest's.
    monkeypatch.setattr(asyncio.get_running_loop(), "add_signal_handler", lambda *_: None)
    await main.run(Settings(), Environment(paceline_http_port=0))
    assert log == ["recorded", "released"]


class Moving(AbstractResolver):
    """Knows one name, which moves from one address to the next."""

    addresses: ClassVar[list[str]] = []

    def __init__(self, **_: Any) -> None:
        """It needs nothing."""

    @override
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        where = self.addresses[0]
        return [ResolveResult(hostname=host, host=where, port=port, family=socket.AF_INET,
                              proto=0, flags=0)]  # fmt: skip

    @override
    async def close(self) -> None:
        """It holds nothing."""


async def served(address: str, port: int) -> TestServer:
    async def told(_: web.Request) -> web.Response:
        return web.Response(text=address)

    app = web.Application()
    app.router.add_get("/", told)
    server = TestServer(app, host=address, port=port)
    await server.start_server()
    return server


async def test_a_name_that_moves_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A headless Service names pods: the address of one that is gone must not be kept."""
    monkeypatch.setattr(connector, "DefaultResolver", Moving)
    first = await served("127.0.0.1", 0)
    second = await served("127.0.0.2", first.port or 0)
    url = f"http://prometheus.test:{first.port}/"
    async with main._engine_session() as session:
        Moving.addresses = ["127.0.0.1"]
        async with session.get(url) as reply:
            assert await reply.text() == "127.0.0.1"
        await first.close()
        Moving.addresses = ["127.0.0.2"]
        later_s = time.monotonic() + 11.0
        monkeypatch.setattr(connector, "monotonic", lambda: later_s)
        async with session.get(url) as reply:
            assert await reply.text() == "127.0.0.2"
    await second.close()
