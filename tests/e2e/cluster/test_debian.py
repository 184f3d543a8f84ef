"""Debian packages are installed without harm to the machine: no services, no cut installation."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from e2e.cluster import debian
from e2e.cluster.errors import CommandError, MissingToolError
from e2e.interruption import raised


def quiet(_name: str, _text: str) -> None:
    pass


def package_manager(place: Path, words: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts an `apt-get` first on PATH; it writes its arguments to the file returned."""
    place.mkdir()
    calls = place / "calls"
    (place / "apt-get").write_text(f'#!/bin/sh\necho "$*" >> {calls}\n{words}\n')
    (place / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return calls


def test_it_waits_for_another_package_manager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = package_manager(tmp_path / "bin", "exit 0", monkeypatch)
    debian.install(["a", "b"], quiet)
    update, install = calls.read_text().splitlines()
    for line in (update, install):
        assert line.startswith("-o DPkg::Lock::Timeout=")
    assert install.endswith("install -qy --no-install-recommends a b")


def test_an_interruption_waits_for_the_end_of_an_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The script sends us the signal, and its own group what a Ctrl-C would; then it goes on.
    calls = package_manager(
        tmp_path / "bin", f"kill -TERM {os.getpid()}; echo whole >> $0.done", monkeypatch
    )
    with raised(), pytest.raises(KeyboardInterrupt):
        debian.install(["a"], quiet)
    assert len(calls.read_text().splitlines()) == 2
    assert (tmp_path / "bin" / "apt-get.done").read_text() == "whole\n" * 2


def test_an_installation_is_out_of_reach_of_its_callers_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package_manager(tmp_path / "bin", "ps -o pgid= -p $$ >> $0.group", monkeypatch)
    debian.install(["a"], quiet)
    groups = set((tmp_path / "bin" / "apt-get.group").read_text().split())
    assert str(os.getpgrp()) not in groups


def test_a_failure_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package_manager(tmp_path / "bin", "echo 'E: no space' >&2; exit 100", monkeypatch)
    with pytest.raises(CommandError, match="E: no space"):
        debian.install(["a"], quiet)


def test_without_root_the_command_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package_manager(tmp_path / "bin", "exit 0", monkeypatch)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(MissingToolError) as caught:
        debian.install(["a", "b"], quiet)
    assert caught.value.remedy == "`sudo apt-get install a b`"


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "policy-rc.d"
    monkeypatch.setattr(debian, "_SERVICE_POLICY", place)
    return place


def refuses(policy: Path) -> bool:
    done = subprocess.run([str(policy), "haproxy", "start"], check=False)
    assert done.returncode in {0, 101}
    return done.returncode == 101


def test_services_are_refused_while_packages_are_installed(policy: Path) -> None:
    with debian._no_service_starts():
        assert refuses(policy)
    assert not policy.exists()


def test_a_policy_that_a_kill_left_loses_its_force_and_goes(policy: Path) -> None:
    policy.write_text(debian._REFUSE_TO_START)
    policy.chmod(0o755)
    assert refuses(policy)
    then = time.time() - 3600
    os.utime(policy, (then, then))
    assert not refuses(policy)
    with debian._no_service_starts():
        assert refuses(policy)
    assert not policy.exists()


def test_the_machines_own_policy_stays(policy: Path) -> None:
    policy.write_text("#!/bin/sh\nexit 104\n")
    with debian._no_service_starts():
        assert "104" in policy.read_text()
    assert "104" in policy.read_text()


def test_signals_are_as_before_after_an_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package_manager(tmp_path / "bin", "exit 0", monkeypatch)
    before = signal.getsignal(signal.SIGTERM)
    debian.install(["a"], quiet)
    assert signal.getsignal(signal.SIGTERM) is before
