"""The checks on a real API server, where nothing acts but the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from e2e.cluster.settings import Settings
from e2e.install import CHART, DEFINITION
from e2e.job import PodHost
from e2e.kubectl import Kubectl
from e2e.smoke import checks
from e2e.smoke.site import NAME, Site, SmokeError

pytestmark = pytest.mark.apiserver

OPERATOR = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": checks.OPERATOR},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "operator", "image": "i"}]},
        },
    },
}


@pytest.fixture(scope="module")
def _definitions(admin: Kubectl) -> Iterator[None]:
    admin.run("apply", "--server-side", "-f", str(CHART / "crds"))
    admin.run("wait", "--for=condition=Established", "crd", DEFINITION)
    yield
    admin.run("delete", "-f", str(CHART / "crds"), "--ignore-not-found")


@pytest.fixture
def site(_definitions: None, admin: Kubectl, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A fleet without an operator that would work for it."""
    monkeypatch.setattr(checks, "QUIET_S", 0.0)
    admin.apply(OPERATOR)
    admin.apply_file(checks.FLEET)
    yield Site(Settings(state=Path("/s"), cache=Path("/c")), admin, admin, PodHost(image="i"))
    admin.run("delete", "deployment", checks.OPERATOR)
    admin.run("delete", "configmap", "child", "--ignore-not-found")
    admin.run("delete", "inferenceservice", NAME, "--ignore-not-found")


def child_of(owner: dict[str, Any], value: str) -> dict[str, Any]:
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    metadata = {"name": "child", "ownerReferences": [reference]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": value}}


def replicas(site: Site) -> int:
    return int(site.system.json("get", "deployment", checks.OPERATOR)["spec"]["replicas"])


def test_a_second_apply_that_nobody_answers_is_quiet(site: Site) -> None:
    assert checks.apply_again(site).endswith("objects unchanged")


def test_a_write_after_the_second_apply_is_named(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = iter(["1", "2"])
    owner = site.service()

    def write(_seconds: float) -> None:
        site.kubectl.apply(child_of(owner, next(writes)))

    monkeypatch.setattr(checks, "time", SimpleNamespace(sleep=write))
    with pytest.raises(SmokeError, match="a second apply led to writes of ConfigMap/child"):
        checks.apply_again(site)


def test_the_operator_is_back_with_all_its_replicas(site: Site) -> None:
    assert checks.delete_without_operator(site).startswith("deleted in ")
    assert replicas(site) == 2
    assert site.kubectl.run("get", "inferenceservice", NAME, "--ignore-not-found") == ""


@pytest.mark.parametrize("end", [SmokeError, KeyboardInterrupt])
def test_the_operator_is_back_also_where_the_check_fails(
    site: Site, monkeypatch: pytest.MonkeyPatch, end: type[BaseException]
) -> None:
    seen: list[int] = []

    def fail(*_: object) -> float:
        seen.append(replicas(site))
        raise end

    monkeypatch.setattr(checks, "until", fail)
    with pytest.raises(end):
        checks.delete_without_operator(site)
    assert seen == [0]
    assert replicas(site) == 2


def test_children_that_stay_are_noticed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing collects them here, which is what a broken owner reference looks like."""
    site.kubectl.apply(child_of(site.service(), "1"))
    asked: dict[str, bool] = {}

    def once(what: str, holds: Callable[[], bool], _timeout_s: float) -> float:
        asked[what] = holds()
        return 0.0

    monkeypatch.setattr(checks, "until", once)
    checks.delete_without_operator(site)
    assert asked == {"operator gone": True, "children gone": False}
