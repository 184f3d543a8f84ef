"""Processes are known by id and start time; mounts by the kernel's own table."""

import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

from e2e.cluster import procfs


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"])


def test_a_process_ends_on_request_and_is_then_gone() -> None:
    child = sleeper()
    identity = procfs.identify(child.pid)
    assert identity is not None
    assert identity.is_alive()
    identity.end(patience_s=10)
    assert not identity.is_alive()
    assert procfs.identify(child.pid) is None
    child.wait()


def test_a_later_process_with_the_same_id_is_left_alone() -> None:
    child = sleeper()
    try:
        identity = procfs.identify(child.pid)
        assert identity is not None
        for other in (replace(identity, started=identity.started - 1), replace(identity, boot="x")):
            assert not other.is_alive()
            other.send(signal.SIGKILL)
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


def test_one_that_ignores_sigterm_is_killed() -> None:
    words = (
        "import signal; signal.signal(15, signal.SIG_IGN); print('on', flush=True); signal.pause()"
    )
    with subprocess.Popen(["python3", "-c", words], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        identity = procfs.identify(child.pid)
        assert identity is not None
        identity.end(patience_s=0.05)
        assert not identity.is_alive()


def test_a_program_name_may_hold_spaces_and_brackets(tmp_path: Path) -> None:
    fields = ["S", *(str(number) for number in range(4, 23))]
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 (a) b) {' '.join(fields)}")
    assert procfs.start_time(7, tmp_path) == 22


def test_mount_points_below_come_last_mounted_first(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    lines = [
        "1 0 0:1 / / rw",
        "2 1 0:2 / /state rw",
        "3 2 0:3 / /state/a\\040b rw",
        "4 1 0:4 / /stated rw",
    ]
    (tmp_path / "self" / "mountinfo").write_text("\n".join(lines))
    found = procfs.mount_points(Path("/state"), tmp_path)
    assert found == [Path("/state/a b"), Path("/state")]


def test_own_memory_is_seen() -> None:
    assert procfs.resident_mib(os.getpid()) > 1
    assert procfs.resident_mib(2**22 + 1) == 0
