"""kubectl against a real API server, and failures in one line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.kubectl import PLUGINS, Kubectl, KubectlError, items

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}}


@pytest.fixture
def fake(tmp_path: Path) -> Callable[[str], Kubectl]:
    """A program of a few lines in kubectl's place, for what no real one does on demand."""

    def made(body: str) -> Kubectl:
        program = tmp_path / "kubectl"
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
        return Kubectl(program, tmp_path / "config", "here")

    return made


@pytest.mark.apiserver
def test_objects_are_applied_read_patched_and_removed(admin: Kubectl) -> None:
    admin.apply(CONFIG)
    admin.patch("configmap", "m", {"data": {"b": "2"}})
    assert admin.json("get", "configmap", "m")["data"] == {"a": "1", "b": "2"}
    assert [each["metadata"]["name"] for each in items(admin.json("get", "configmaps"))] == ["m"]
    assert list(admin.stream("get", "configmap", "-o", "name")) == ["configmap/m\n"]
    admin.run("delete", "configmap", "m")
    assert items(admin.json("get", "configmaps")) == []


@pytest.mark.apiserver
def test_the_servers_refusal_is_the_message(admin: Kubectl) -> None:
    with pytest.raises(KubectlError, match=r'^kubectl get configmap no -o json: .*"no" not found$'):
        admin.json("get", "configmap", "no")


@pytest.mark.apiserver
def test_the_plug_in_of_this_checkout_asks_the_same_cluster(admin: Kubectl) -> None:
    with pytest.raises(KubectlError, match=r"^kubectl paceline explain absent: "):
        admin.paceline("explain", "absent")


def test_the_plug_in_of_this_checkout_comes_first(
    fake: Callable[[str], Kubectl], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    kubectl = replace(fake('echo "$PATH|$KUBECONFIG|$*"'), context="there")
    path, config, words = kubectl.paceline("explain", "s").strip().split("|")
    assert path == f"{PLUGINS}:{kubectl.program.parent}:/usr/bin:/bin"
    assert (config, words) == (
        str(kubectl.kubeconfig),
        "paceline explain s -n here --context there",
    )
    assert (PLUGINS / "kubectl-paceline").is_file()


def test_other_calls_find_the_users_programs_alone(
    fake: Callable[[str], Kubectl], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credential plug-ins run as for the user, not with this project's Python."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    kubectl = fake('echo "$PATH"')
    assert kubectl.run("get").strip() == f"{kubectl.program.parent}:/usr/bin:/bin"


def test_the_context_goes_with_every_call(fake: Callable[[str], Kubectl]) -> None:
    kubectl = replace(fake('echo "$*"'), context="there")
    config = kubectl.kubeconfig
    expected = f"--kubeconfig {config} -n here --context there get pods"
    assert kubectl.run("get", "pods").strip() == expected


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("echo first >&2; echo 'the last' >&2; exit 1", "kubectl get: the last"),
        ("exit 3", "kubectl get: no message"),
        ("exec sleep 30", "kubectl get: no end after 0 s"),
    ],
    ids=["a message", "none", "no end"],
)
def test_a_failure_is_one_line(fake: Callable[[str], Kubectl], body: str, problem: str) -> None:
    kubectl = fake(body)
    with pytest.raises(KubectlError) as caught:
        kubectl.run("get", timeout_s=0.2 if "sleep" in body else 20.0)
    assert str(caught.value) == problem


def test_a_missing_kubectl_is_one_line() -> None:
    with pytest.raises(KubectlError, match="kubectl get: /absent/kubectl: No such file"):
        Kubectl(Path("/absent/kubectl"), Path("config")).run("get")


def test_a_stream_that_is_left_ends_its_program(fake: Callable[[str], Kubectl]) -> None:
    lines = fake("echo $$; exec sleep 30").stream("logs", "-f")
    pid = int(next(lines))
    lines.close()
    assert not Path(f"/proc/{pid}").exists()
