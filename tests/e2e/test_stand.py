"""Where runs work: what they make goes with them, what is a user's stays."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from e2e import stand
from e2e.cluster import access, existing, lifecycle
from e2e.cluster.errors import ClusterError
from e2e.demo import __main__ as demo_main
from e2e.install import CHART, DEFINITION, NAMESPACE, RELEASE, Helm
from e2e.kubectl import Kubectl, KubectlError
from e2e.mark import LABEL


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What a run does to a built cluster, in order; the real one may be in use by others."""
    seen: list[str] = []

    def noting(event: str, result: Any) -> Any:
        seen.append(event)
        return result

    for name in ("PACELINE_CLUSTER", "PACELINE_KUBE_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(access, "_LOCKS", tmp_path)
    monkeypatch.setattr(lifecycle, "is_up", lambda _settings: False)
    monkeypatch.setattr(lifecycle, "up", lambda *_: seen.append("up"))
    monkeypatch.setattr(lifecycle, "down", lambda *_: noting("down", []))
    place = SimpleNamespace(kubectl=Kubectl(tmp_path / "kubectl", tmp_path), namespace="default")
    monkeypatch.setattr(stand, "_install", lambda *_: noting("install", place))
    monkeypatch.setattr(stand, "_fresh_namespace", lambda *_: seen.append("make namespace"))
    monkeypatch.setattr(stand, "_delete_namespace", lambda _: seen.append("delete namespace"))
    return seen


ALL = ["up", "install", "make namespace", "delete namespace"]


@pytest.mark.parametrize(("keep", "last"), [(False, ["down"]), (True, [])])
def test_what_was_made_goes(events: list[str], last: list[str], *, keep: bool) -> None:
    with stand.stand("run", keep_cluster=keep):
        assert events == ALL[:3]
    assert events == ALL + last


def test_a_cluster_that_was_up_stays(events: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "is_up", lambda _settings: True)
    with stand.stand("run", keep_cluster=False):
        pass
    assert events == ALL


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_after_a_signal_all_goes_too(events: list[str], number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt), stand.stand("run", keep_cluster=False):
        os.kill(os.getpid(), number)
    assert events == [*ALL, "down"]


def test_while_one_run_works_no_other_may(events: list[str], tmp_path: Path) -> None:
    with stand.stand("run", keep_cluster=True):
        (lock,) = tmp_path.glob("*.lock")
        another = ["flock", "--nonblock", str(lock), "true"]
        assert subprocess.run(another, check=False).returncode == 1
    assert subprocess.run(another, check=False).returncode == 0


def test_what_went_wrong_first_is_what_is_said(
    events: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_kubectl: Kubectl) -> None:
        raise KubectlError("connection refused")

    monkeypatch.setattr(stand, "_delete_namespace", fail)
    with pytest.raises(ZeroDivisionError), stand.stand("run", keep_cluster=False):
        raise ZeroDivisionError
    assert events[-1] == "down"
    with pytest.raises(KubectlError), stand.stand("run", keep_cluster=False):
        pass


def test_a_cluster_that_leaves_something_is_an_error(
    events: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "down", lambda *_: ["mount /x", "process 7"])
    with (
        pytest.raises(ClusterError, match="left mount /x; process 7"),
        stand.stand("run", keep_cluster=False),
    ):
        pass
    assert events == ALL


@pytest.mark.parametrize(("left", "code"), [([], 0), (["mount /x", "process 7"], 1)])
def test_demo_down_names_what_is_left_and_fails(
    events: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    left: list[str],
    code: int,
) -> None:
    monkeypatch.setattr(lifecycle, "down", lambda *_: left)
    monkeypatch.setattr(demo_main, "remove_model", lambda _: events.append("model"))
    monkeypatch.setattr("sys.argv", ["demo", "--down"])
    assert demo_main.main() == code
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if "left" in line] == [f"demo: left: {what}" for what in left]
    assert events == ["model"]


def test_demo_down_removes_the_model_even_where_the_cluster_stays(
    events: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> list[str]:
        raise ClusterError("still mounted", "unmount it")

    monkeypatch.setattr(lifecycle, "down", fail)
    monkeypatch.setattr(demo_main, "remove_model", lambda _: events.append("model"))
    monkeypatch.setattr("sys.argv", ["demo", "--down"])
    assert demo_main.main() == 2
    assert events == ["model"]


@pytest.fixture
def theirs(
    admin: Kubectl, helm: Helm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Helm]:
    """Somebody's cluster: real API server, one node that says Ready, nothing of Paceline."""
    monkeypatch.setenv("PACELINE_CLUSTER", "existing")
    monkeypatch.setenv("PACELINE_KUBE_CONTEXT", "paceline-e2e")
    monkeypatch.setenv("KUBECONFIG", str(admin.kubeconfig))
    monkeypatch.setenv("PACELINE_VALUES", str(CHART / "values.yaml"))
    monkeypatch.setattr(access, "lock_path", lambda _settings: tmp_path / "lock")
    monkeypatch.setattr(existing, "up", lambda *_: None)
    yield helm
    helm.run("uninstall", RELEASE, "--namespace", NAMESPACE, "--ignore-not-found")
    admin.run("delete", "-f", str(CHART / "crds"), "--ignore-not-found")


def release(helm: Helm, *marks: str) -> None:
    where = ("--namespace", NAMESPACE, "--create-namespace")
    helm.run("upgrade", "--install", RELEASE, str(CHART), *where, *marks)


@pytest.mark.apiserver
def test_a_users_release_is_neither_upgraded_nor_removed(theirs: Helm) -> None:
    theirs.kubectl.run("apply", "--server-side", "-f", str(CHART / "crds"))
    release(theirs)
    with (
        pytest.raises(ClusterError, match=f"already crd {DEFINITION}, release"),
        stand.stand("paceline-demo", keep_cluster=True),
    ):
        raise AssertionError
    assert stand.take_down() == []
    assert '"revision":"1"' in theirs.run("list", "--namespace", NAMESPACE, "-o", "json")
    theirs.kubectl.run("get", "crd", DEFINITION)


@pytest.mark.apiserver
def test_a_users_namespace_of_the_runs_name_is_left(theirs: Helm) -> None:
    theirs.kubectl.run("create", "namespace", "paceline-theirs")
    with (
        pytest.raises(ClusterError, match="already namespace paceline-theirs"),
        stand.stand("paceline-theirs", keep_cluster=True),
    ):
        raise AssertionError
    phase = theirs.kubectl.json("get", "namespace", "paceline-theirs")["status"]["phase"]
    assert phase == "Active"


@pytest.mark.apiserver
def test_what_a_run_installed_is_taken_down(theirs: Helm) -> None:
    theirs.kubectl.run("apply", "--server-side", "-f", str(CHART / "crds"))
    theirs.kubectl.run("label", "crd", DEFINITION, LABEL)
    release(theirs, "--labels", LABEL)
    assert stand.take_down() == []
    assert theirs.run("list", "--namespace", NAMESPACE, "--short").strip() == ""
    assert theirs.kubectl.run("get", "crd", DEFINITION, "--ignore-not-found") == ""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "No such file"),
        ("a: [", "no YAML: "),
        ("- 1", "not a mapping"),
        ("", "not a mapping"),
    ],
    ids=["absent", "broken", "a list", "empty"],
)
def test_bad_values_are_one_line(tmp_path: Path, text: str | None, problem: str) -> None:
    path = tmp_path / "values.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ClusterError, match=problem) as caught:
        stand._read_values(path)
    assert "\n" not in str(caught.value)
