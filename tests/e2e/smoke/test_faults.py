"""What the kills wait for, on a real API server, and what they leave behind."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from e2e.cluster import processes
from e2e.cluster.settings import Settings
from e2e.job import PodHost
from e2e.kubectl import Kubectl
from e2e.smoke import checks, faults
from e2e.smoke.site import Site, SmokeError
from paceline_operator.metrics import names
from tests.support.chart import template

NODE = "smoke-node"


@pytest.fixture
def site(admin: Kubectl) -> Site:
    settings = Settings(state=Path("/absent"), cache=Path("/absent"), node=NODE)
    return Site(settings, admin, admin, PodHost(image="i"))


@pytest.fixture
def dead_api_server(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done to the API server of a cluster that must not be touched here."""
    seen: list[str] = []

    def kill(*_: object) -> bool:
        seen.append("kill")
        return True

    monkeypatch.setattr(processes, "kill", kill)
    monkeypatch.setattr(processes, "start", lambda *_: seen.append("start"))
    monkeypatch.setattr(processes, "wait_healthy", lambda *_: seen.append("healthy"))
    return seen


def lease(name: str, namespace: str, at_s: float) -> dict[str, Any]:
    renewed = datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"holderIdentity": "somebody", "renewTime": renewed},
    }


@pytest.fixture
def node(admin: Kubectl) -> Iterator[None]:
    """A node that says Ready, for as long as nobody doubts it."""
    admin.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
    status = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    admin.run(
        *("patch", "node", NODE, "--subresource=status", "--type=merge", "-p", json.dumps(status))
    )
    yield
    admin.run("delete", "node", NODE)


@pytest.mark.apiserver
@pytest.mark.usefixtures("node")
def test_a_node_that_only_says_ready_does_not_live(site: Site) -> None:
    now_s = time.time()
    site.system.run("apply", "-f", "-", "-n", faults.NODE_LEASES, stdin=_text(now_s - 1))
    assert not faults._node_lives(site, now_s)
    site.system.run("apply", "-f", "-", "-n", faults.NODE_LEASES, stdin=_text(now_s + 1))
    assert faults._node_lives(site, now_s)


def _text(at_s: float) -> str:
    return json.dumps(lease(NODE, faults.NODE_LEASES, at_s))


@pytest.mark.apiserver
def test_an_operator_leads_only_where_it_has_renewed_since(site: Site) -> None:
    now_s = time.time()
    site.system.apply(lease(faults.OPERATOR_LEASE, "default", now_s - 1))
    assert not faults._leads(site, now_s)
    site.system.apply(lease(faults.OPERATOR_LEASE, "default", now_s + 1))
    assert faults._leads(site, now_s)


def test_names_are_those_of_the_chart() -> None:
    rendered = template()
    assert checks.OPERATOR in {each["metadata"]["name"] for each in rendered.of_kind("Deployment")}
    assert rendered.settings["leaseName"] == faults.OPERATOR_LEASE


def test_what_an_engine_holds_is_summed_over_running_waiting_and_tiers() -> None:
    running, waiting = names.REQUESTS_RUNNING.full_name, names.REQUESTS_WAITING.full_name
    text = "\n".join(
        [
            f"# HELP {running} Requests.",
            f'{running}{{model_name="m",tier="interactive"}} 3.0',
            f'{running}{{model_name="m",tier="batch"}} 2.0',
            f'{waiting}{{model_name="m",tier="interactive"}} 4.0',
            'vllm:num_requests_running{model_name="m"} 99.0',
            f'{names.WAITING_TOKENS.full_name}{{model_name="m",tier="batch"}} 77.0',
        ]
    )
    assert faults.held_requests(text) == 9
    assert faults.held_requests("") == 0


class Engines:
    """Two engine pods, of which the second gets its first request at the third look."""

    def __init__(self) -> None:
        self.looks = 0

    def engine_pods(self) -> list[dict[str, Any]]:
        self.looks += 1
        if self.looks == 1:
            return []
        return [{"metadata": {"name": name}} for name in ("idle", "busy")]

    @property
    def kubectl(self) -> Engines:
        return self

    def pod_metrics(self, pod: str) -> str:
        held = 5 if pod == "busy" and self.looks >= 3 else 0
        return f'{names.REQUESTS_RUNNING.full_name}{{model_name="m",tier="batch"}} {held}.0'


def test_the_engine_to_kill_is_the_one_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("e2e.smoke.site.POLL_S", 0.0)
    engines, before_s = Engines(), time.time()
    busy = faults._at_work(cast("Site", engines))
    assert (busy.pod["metadata"]["name"], busy.held, engines.looks) == ("busy", 5, 3)
    assert before_s <= busy.read_at_s <= time.time()


@pytest.mark.parametrize("end", [KeyboardInterrupt, SmokeError])
def test_the_api_server_comes_back_whatever_happens_while_it_is_away(
    site: Site,
    dead_api_server: list[str],
    monkeypatch: pytest.MonkeyPatch,
    end: type[BaseException],
) -> None:
    def interrupted(_seconds: float) -> None:
        raise end

    monkeypatch.setattr(time, "sleep", interrupted)
    with pytest.raises(end):
        faults.kill_api_server(site)
    assert dead_api_server == ["kill", "start", "healthy"]


def test_an_api_server_that_does_not_run_is_said(
    site: Site, dead_api_server: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "kill", lambda *_: False)
    with pytest.raises(SmokeError, match="was not running"):
        faults.kill_api_server(site)
    assert dead_api_server == []


def test_a_pod_of_no_process_is_said() -> None:
    with pytest.raises(SmokeError, match="no process of pod 00000000-no-such-pod"):
        faults._kill_pod_processes("00000000-no-such-pod")
