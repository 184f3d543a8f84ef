"""Only a directory that `up` made is ever deleted."""

import os
from pathlib import Path

import pytest

from e2e.cluster import __main__ as command_line
from e2e.cluster import access, lifecycle, ownership, procfs, removal
from e2e.cluster.errors import ClusterError
from e2e.cluster.settings import Settings, from_environment


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(state=tmp_path / "state", cache=tmp_path / "cache")


def test_a_directory_is_claimed_once_and_known_again(settings: Settings) -> None:
    ownership.require(settings)
    ownership.claim(settings)
    assert ownership.is_marked(settings)
    (settings.state / "file").touch()
    ownership.claim(settings)


def test_an_empty_directory_may_be_claimed(settings: Settings) -> None:
    settings.state.mkdir()
    ownership.claim(settings)
    assert ownership.is_marked(settings)


@pytest.mark.parametrize("command", ["up", "down"])
def test_a_directory_of_somebody_else_is_not_touched(
    command: str,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(access, "_LOCKS", tmp_path)
    monkeypatch.setattr(ownership, "_MARKER", ".test")
    monkeypatch.setattr(removal, "remove", None)
    monkeypatch.setattr(lifecycle, "_start", None)
    monkeypatch.setenv("PACELINE_STATE", str(settings.state))
    monkeypatch.setenv("PACELINE_CACHE", str(settings.cache))
    for name in ("PACELINE_CLUSTER", "PACELINE_KUBE_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    (settings.state / "deep").mkdir(parents=True)
    (settings.state / "deep" / "precious").write_text("kept")
    monkeypatch.setattr("e2e.cluster.layout._LONGEST_STATE", 4096)
    assert command_line.main([command]) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert f"PACELINE_STATE={settings.state} holds files, and no `up` made it" in last
    assert (settings.state / "deep" / "precious").read_text() == "kept"


def test_a_file_is_no_state(settings: Settings) -> None:
    settings.state.touch()
    with pytest.raises(ClusterError, match="is not a directory"):
        ownership.claim(settings)


def test_a_marker_that_is_a_link_marks_nothing(settings: Settings, tmp_path: Path) -> None:
    settings.state.mkdir()
    (tmp_path / "real").touch()
    ownership.marker(settings).symlink_to(tmp_path / "real")
    with pytest.raises(ClusterError, match="no `up` made it"):
        ownership.claim(settings)


def test_a_place_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    unmakeable = Settings(state=tmp_path / "file" / "state", cache=tmp_path)
    with pytest.raises(ClusterError, match=r"cannot be made: Not a directory"):
        ownership.claim(unmakeable)


@pytest.mark.parametrize(
    ("point", "foreign"),
    [
        ("", True),
        ("data", True),
        ("runner", True),
        ("run/containerd/x/rootfs", False),
        ("kubelet/pods/1/volumes/v", False),
        ("kubelet", False),
    ],
)
def test_mounts_of_others_are_told_from_own_ones(point: str, *, foreign: bool) -> None:
    state = Path("/state")
    place = state / point
    assert ownership.foreign_mounts(state, [place]) == ([place] if foreign else [])


def test_a_mount_point_is_refused_though_marked(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    ownership.claim(settings)
    monkeypatch.setattr(procfs, "mount_points", lambda _: [settings.state / "disk"])
    with pytest.raises(ClusterError, match=f"mounted at {settings.state}/disk"):
        ownership.require(settings)


def test_links_on_the_way_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    os.symlink(tmp_path / "real", tmp_path / "link")
    environment = {"PACELINE_STATE": str(tmp_path / "link" / "x" / ".." / "state")}
    assert from_environment(environment).state == tmp_path / "real" / "state"
