"""Only what is left to do is asked for, and each lack is one line."""

import platform
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from e2e.cluster import debian
from e2e.setup import place, preflight
from e2e.setup.stage import SetupError, Stage


def stage(
    name: str = "work", tools: tuple[str, ...] = (), disk_gb: Mapping[Path, float] | None = None
) -> Stage:
    return Stage(name, lambda _: None, tools=tools, disk_gb=disk_gb or {})


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Packages that were asked for; nothing is installed."""
    asked: list[str] = []
    monkeypatch.setattr(debian, "install", lambda packages, _say: asked.extend(packages))
    return asked


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1e9))


def test_a_check_of_style_needs_neither_root_nor_this_processor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    preflight.check({"operator"}, [])


@pytest.mark.parametrize(
    ("goal", "machine", "user", "words"),
    [
        ("cluster", "x86_64", 1000, "needs root"),
        ("cluster", "aarch64", 0, "this is Linux aarch64"),
        ("engine", "aarch64", 0, "this is Linux aarch64"),
    ],
)
def test_goals_that_need_more_say_so(
    goal: str, machine: str, user: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    with pytest.raises(SetupError, match=words):
        preflight.check({goal}, [])


@pytest.mark.usefixtures("full")
def test_a_full_disk_stops_only_what_fills_it(tmp_path: Path) -> None:
    preflight.check({"operator"}, [stage()])
    with pytest.raises(SetupError) as caught:
        preflight.check({"operator"}, [stage("env", disk_gb={tmp_path / "uv" / "x": 6.0})])
    assert str(caught.value).startswith(
        f"{tmp_path / 'uv' / 'x'} has 1.0 GB free, 6.0 GB are needed for env - "
    )


def test_needs_on_one_file_system_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, checkout, home = tmp_path / "a", tmp_path / "b", Path("/other")
    monkeypatch.setattr(place, "device", lambda path: 2 if path == home else 1)
    pending = [
        stage("one", disk_gb={cache: 6.0, checkout: 0.5}),
        stage("two", disk_gb={cache: 1.0, home: 7.0}),
    ]
    assert preflight.needs_by_device(pending) == {1: (cache, 7.5), 2: (home, 7.0)}


def test_missing_tools_are_installed_by_package(
    installed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool in {"gcc", "g++"} else "/bin/x")
    preflight.check({"operator"}, [stage(tools=("gcc",)), stage(tools=("g++",))])
    assert installed == ["g++", "gcc", "libc6-dev"]


def test_the_package_for_environments_is_that_of_this_python(
    installed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([False, True])
    monkeypatch.setattr(preflight, "_makes_environments", lambda: next(answers))
    monkeypatch.setattr("sys.version_info", SimpleNamespace(major=3, minor=12))
    preflight.check({"operator"}, [stage(tools=("venv",))])
    assert installed == ["python3.12-venv"]


@pytest.mark.usefixtures("installed")
def test_a_python_that_still_makes_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "_makes_environments", lambda: False)
    with pytest.raises(SetupError, match="cannot make environments"):
        preflight.check({"operator"}, [stage(tools=("venv",))])


@pytest.mark.parametrize(
    ("version", "good"),
    [("go1.26.2", True), ("go2.0", True), ("go1.25.9", False), ("devel", False)],
)
def test_go_is_new_enough(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, good: bool
) -> None:
    (tmp_path / "go").write_text(f"#!/bin/sh\necho go version {version} linux/amd64\n")
    (tmp_path / "go").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    pending = [stage(tools=("go",))]
    if good:
        preflight.check({"operator"}, pending)
    else:
        with pytest.raises(SetupError, match=r"is too old - install Go >= 1\.26"):
            preflight.check({"operator"}, pending)
