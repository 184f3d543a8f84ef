"""Installing with real Helm on a real API server: marked, found again, and removed alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.install import (
    CHART,
    DEFINITION,
    NAMESPACE,
    RELEASE,
    Helm,
    InstallError,
    look,
    make_namespace,
    marked_namespaces,
    place_model,
    pod_host,
    uninstall,
)
from e2e.kubectl import Kubectl
from e2e.mark import LABEL, MARK, foreign

SERVICE = {
    "apiVersion": "paceline.dev/v1alpha1",
    "kind": "InferenceService",
    "metadata": {"name": "theirs", "namespace": "default"},
    "spec": {
        "model": {"servedName": "theirs"},
        "engine": {"device": {"type": "Simulated", "profile": "llama-3-8b-h100"}},
    },
}


@pytest.fixture
def bare(helm: Helm) -> Iterator[Helm]:
    """Nothing of Paceline is on the cluster, before and after."""
    yield helm
    helm.run("uninstall", RELEASE, "--namespace", NAMESPACE, "--ignore-not-found")
    helm.kubectl.run("delete", "-f", str(CHART / "crds"), "--ignore-not-found")


def definitions(kubectl: Kubectl, *, marked: bool) -> None:
    kubectl.run("apply", "--server-side", "-f", str(CHART / "crds"))
    kubectl.run("wait", "--for=condition=Established", "crd", DEFINITION)
    if marked:
        kubectl.run("label", "crd", DEFINITION, LABEL)


def release(helm: Helm, *, marked: bool) -> None:
    """As `install`, but for its waiting: no pod runs here."""
    marks = ("--labels", LABEL) if marked else ()
    where = ("--namespace", NAMESPACE, "--create-namespace")
    helm.run("upgrade", "--install", RELEASE, str(CHART), *where, *marks)


@pytest.mark.apiserver
def test_on_an_empty_cluster_nothing_is_foreign(bare: Helm) -> None:
    assert foreign(look(bare, "paceline-demo")) is None
    assert uninstall(bare) == []


@pytest.mark.apiserver
def test_a_release_of_a_run_is_its_own_and_goes_with_its_definitions(bare: Helm) -> None:
    definitions(bare.kubectl, marked=True)
    release(bare, marked=True)
    assert [found.exists for found in look(bare)] == [True, True]
    assert foreign(look(bare)) is None
    assert uninstall(bare) == []
    assert [found.exists for found in look(bare)] == [False, False]


@pytest.mark.apiserver
def test_a_users_release_is_foreign_and_stays(bare: Helm) -> None:
    definitions(bare.kubectl, marked=False)
    release(bare, marked=False)
    assert foreign(look(bare)) == f"crd {DEFINITION}, release {NAMESPACE}/{RELEASE}"
    uninstall(bare)
    assert [found.exists for found in look(bare)] == [True, True]


@pytest.mark.apiserver
def test_definitions_that_somebody_uses_stay_and_are_named(bare: Helm) -> None:
    definitions(bare.kubectl, marked=True)
    bare.kubectl.apply(SERVICE)
    assert uninstall(bare) == [f"crd {DEFINITION}, which default/theirs needs"]
    assert bare.kubectl.json("get", "inferenceservice", "theirs")["metadata"]["name"] == "theirs"


@pytest.mark.apiserver
def test_namespaces_of_runs_are_told_from_others(bare: Helm) -> None:
    bare.kubectl.run("create", "namespace", "users-own")
    make_namespace(bare.kubectl, "a-runs-own")
    try:
        assert marked_namespaces(bare.kubectl) == ["a-runs-own"]
        assert foreign(look(bare, "a-runs-own", "users-own")) == "namespace users-own"
    finally:
        # Nothing finishes the deletion of a namespace here, so later tests must not find it.
        bare.kubectl.run("label", "namespace", "a-runs-own", f"{MARK}-")
    assert marked_namespaces(bare.kubectl) == []


@pytest.mark.apiserver
def test_helm_fails_in_one_line(helm: Helm) -> None:
    with pytest.raises(InstallError, match=r"^helm upgrade: [^\n]+$"):
        helm.run("upgrade", "absent", str(CHART), "--namespace", "default")


def test_a_missing_helm_is_one_line() -> None:
    helm = Helm(Path("/absent/helm"), Kubectl(Path("kubectl"), Path("k")))
    with pytest.raises(InstallError, match="helm list: /absent/helm: No such file"):
        helm.run("list")


def test_the_context_is_named_to_helm() -> None:
    kubectl = Kubectl(Path("kubectl"), Path("config"), context="there")
    assert Helm(Path("helm"), kubectl).argv("list") == [
        *("helm", "list", "--kubeconfig", "config", "--kube-context", "there")
    ]
    assert "--kube-context" not in Helm(Path("helm"), replace(kubectl, context=None)).argv("list")


def test_a_model_that_cannot_be_placed_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InstallError, match=r"absent\.gguf: No such file or directory"):
        place_model(tmp_path / "absent.gguf")


@pytest.mark.parametrize(
    ("values", "python", "image"),
    [
        ({}, "python", "paceline-operator:0.1.0"),
        ({"image": "i:1", "operator": {"command": ["/venv/bin/p"]}}, "/venv/bin/python", "i:1"),
    ],
    ids=["images of the chart", "the host's environment"],
)
def test_further_pods_run_as_the_operator_does(
    values: dict[str, object], python: str, image: str
) -> None:
    host = pod_host(values)
    assert (host.python, host.image) == (python, image)
