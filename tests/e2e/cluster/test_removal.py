"""`up` undoes itself, and `down` undoes all it can and names the rest."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.cluster import __main__ as command_line
from e2e.cluster import access, lifecycle, network, preflight, processes, removal
from e2e.cluster.errors import ClusterError, CommandError, StartError
from e2e.cluster.settings import Settings
from e2e.interruption import raised

SHIM = "containerd-shim-runc-v2"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A state of its own, and a lock that no running cluster holds."""
    monkeypatch.setattr(access, "_LOCKS", tmp_path)
    monkeypatch.setattr(network, "owner", lambda: "")
    monkeypatch.setattr("e2e.cluster.layout._LONGEST_STATE", 4096)
    return Settings(state=tmp_path / "state", cache=tmp_path / "cache")


def quiet(_name: str, _text: str) -> None:
    pass


@contextmanager
def server(place: Path, program: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of that name, with those words, that runs until its input ends."""
    place.mkdir(parents=True, exist_ok=True)
    shutil.copy(shutil.which("dash") or "/bin/sh", place / program)
    (place / words[0]).write_text("echo on; read line\n")
    with subprocess.Popen(
        [str(place / program), *words], cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"on\n"
        try:
            yield child
        finally:
            child.kill()


@pytest.mark.parametrize(
    ("program", "words", "name"),
    [
        (SHIM, "-address", SHIM),
        ("kubebox", "etcd", "etcd"),
        ("kubebox", "kubectl", ""),
        ("helm", "install", ""),
        ("editor", "etcd", ""),
    ],
)
def test_strays_are_told_by_name_and_state_wherever_their_program_lies(
    program: str, words: str, name: str, settings: Settings, tmp_path: Path
) -> None:
    # A pull changes the versions: what runs then lies under a key that is no longer known.
    place = tmp_path / "bin" / "module-0123456789abcdef"
    word = "shim" if words == "-address" else words
    with server(place, program, word, f"{settings.state}/run/x") as child:
        found = [(each, identity.pid) for each, identity in processes.strays(settings)]
        assert found == ([(name, child.pid)] if name else [])
        other = Settings(state=tmp_path / "other", cache=settings.cache)
        assert processes.strays(other) == []


def test_what_still_runs_or_lies_there_is_left_over(settings: Settings, tmp_path: Path) -> None:
    assert not [each for each in removal.rest(settings) if str(settings.state) in each]
    settings.state.mkdir()
    assert f"directory {settings.state}" in removal.rest(settings)
    with server(tmp_path / "bin", SHIM, "shim", f"{settings.state}/run/x") as child:
        assert f"process {child.pid} ({SHIM})" in removal.rest(settings)


def test_a_step_that_fails_is_named_and_keeps_no_other_from_being_done() -> None:
    done: list[str] = []

    def fail() -> None:
        raise CommandError("`ip link delete` failed: busy", "look")

    def fail_to_write() -> None:
        raise PermissionError(13, "denied", "/x")

    steps: list[removal.Step] = [
        ("bridge", fail),
        ("settings", fail_to_write),
        ("state", lambda: done.append("state")),
    ]
    failed = removal.perform(steps, quiet)
    assert done == ["state"]
    assert failed == [
        "bridge (`ip link delete` failed: busy)",
        "settings ([Errno 13] denied: '/x')",
    ]


class Undone:
    """Stands for the machine: an `up` that fails, and a removal that is watched."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failure: BaseException) -> None:
        self.ignored: list[bool] = []

        def start(_settings: Settings, _say: object) -> None:
            raise failure

        monkeypatch.setattr(preflight, "check", lambda _settings: None)
        monkeypatch.setattr(removal, "traces", lambda _settings: False)
        monkeypatch.setattr(lifecycle, "_start", start)
        monkeypatch.setattr(removal, "remove", self.remove)

    def remove(self, _settings: Settings, _say: object) -> list[str]:
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        self.ignored = [signal.getsignal(number) is signal.SIG_IGN for number in numbers]
        return ["interface paceline-e2e"]


def test_a_failed_up_removes_all_though_the_logs_cannot_be_kept(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    undone = Undone(monkeypatch, StartError("etcd ended", "see"))

    def fail(_settings: Settings) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(lifecycle, "_keep_logs", fail)
    with pytest.raises(StartError, match="etcd ended") as caught:
        lifecycle.up(settings, quiet)
    assert undone.ignored == [True, True, True]
    assert "the logs could not be kept ([Errno 28]" in caught.value.remedy
    assert "left behind: interface paceline-e2e" in caught.value.remedy


def test_an_interrupted_up_removes_all_and_stays_interrupted(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    undone = Undone(monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        lifecycle.up(settings, quiet)
    assert undone.ignored == [True, True, True]


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture
def _heard() -> Iterator[None]:
    """Signals as a shell starts a program with them, whatever started these tests."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_heard")
@pytest.mark.parametrize("number", SIGNALS)
def test_only_the_first_signal_interrupts(number: signal.Signals) -> None:
    with raised():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        for again in SIGNALS:
            signal.raise_signal(again)


def test_another_state_does_not_take_the_cluster_of_this_machine(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    monkeypatch.setattr(network, "owner", lambda: str(theirs))
    monkeypatch.setattr(removal, "remove", None)
    monkeypatch.setattr(lifecycle, "_start", None)
    for change in (lifecycle.up, lifecycle.down):
        with pytest.raises(ClusterError, match=f"is that of PACELINE_STATE={theirs}"):
            change(settings, quiet)


def test_down_reports_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PACELINE_CLUSTER", "PACELINE_KUBE_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(lifecycle, "down", lambda _settings, _say: ["process 1 (etcd)"])
    assert command_line.main(["down"]) == 1


def test_only_an_own_directory_is_deleted(settings: Settings) -> None:
    (settings.state / "deep").mkdir(parents=True)
    with pytest.raises(ClusterError, match="no `up` made it"):
        removal._delete(settings)
    (settings.state / ".paceline-e2e").touch()
    os.symlink("/", settings.state / "link")
    removal._delete(settings)
    assert not settings.state.exists()
