"""Components are started once, found again by a record, and ended; cgroups are emptied."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster import cgroups, components, layout, processes
from e2e.cluster.components import Component
from e2e.cluster.errors import StartError
from e2e.cluster.settings import Settings

# Components outlive the process that starts them, on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A state directory in which `etcd` is a program that sleeps."""
    monkeypatch.setattr("e2e.cluster.layout._LONGEST_STATE", 4096)
    found = Settings(state=tmp_path / "state", cache=tmp_path / "cache")
    found.state.mkdir()
    layout.of(found).make()
    stands_for(monkeypatch, "echo begun; exec sleep 600")
    return found


def stands_for(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    # Nothing listens on port 1, so it is never well.
    component = Component("etcd", ("/bin/sh", "-c", words), "http://127.0.0.1:1/health")
    monkeypatch.setattr(components, "describe", lambda _settings, _name: component)


def test_a_component_is_started_once_found_and_ended(settings: Settings) -> None:
    assert processes.find(settings, "etcd") is None
    started = processes.start(settings, "etcd")
    assert processes.start(settings, "etcd") == started
    assert processes.find(settings, "etcd") == started
    processes.stop(settings, "etcd")
    assert not started.is_alive()
    assert processes.find(settings, "etcd") is None
    processes.stop(settings, "etcd")


def test_one_that_is_killed_is_gone_at_once(settings: Settings) -> None:
    started = processes.start(settings, "etcd")
    assert processes.kill(settings, "etcd")
    assert not started.is_alive()
    assert not processes.kill(settings, "etcd")


@pytest.mark.parametrize("record", ["", "{", '{"pid": 1}'])
def test_a_broken_record_names_no_process(settings: Settings, record: str) -> None:
    (layout.of(settings).records / "etcd.json").write_text(record)
    assert processes.find(settings, "etcd") is None


def test_one_that_ends_is_named_with_its_last_words(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It ends only once it is told to, so that its start is always seen.
    stands_for(monkeypatch, f"read line < {settings.state}/go; echo no such flag; exit 1")
    os.mkfifo(settings.state / "go")
    processes.start(settings, "etcd")
    (settings.state / "go").write_text("go\n")
    with pytest.raises(StartError, match="etcd ended: no such flag"):
        processes.wait_healthy(settings, "etcd")


def test_one_that_does_not_become_well_is_named(settings: Settings) -> None:
    processes.start(settings, "etcd")
    try:
        with pytest.raises(StartError, match="etcd not ready within 0 s"):
            processes.wait_healthy(settings, "etcd", patience_s=0.2)
    finally:
        processes.stop(settings, "etcd")


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A real control group under another name than the cluster's."""
    monkeypatch.setattr(cgroups, "ROOT", f"paceline-test-{os.getpid()}")
    hierarchy = next(each for each in cgroups.hierarchies() if each.name != "cpuset")
    (hierarchy / cgroups.ROOT / "pod").mkdir(parents=True)
    yield hierarchy / cgroups.ROOT
    cgroups.end()


def test_what_runs_in_the_group_ends_and_the_group_goes(group: Path) -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        (group / "pod" / "cgroup.procs").write_text(str(child.pid))
        assert cgroups.processes() == {child.pid}
        cgroups.end()
        assert child.wait() == -9
    assert cgroups.processes() == set()
    assert not cgroups.exists()
