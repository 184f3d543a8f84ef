"""What the kernel says about processes and mounts; ids are reused, so each has a start time."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_START_TIME_FIELD = 19
"""Index of `starttime` among the fields of /proc/PID/stat that follow the program's name."""


@dataclass(frozen=True, slots=True)
class Identity:
    """One process, told apart from later ones with the same id.

    Attributes:
        pid: Its id.
        started: Clock ticks between boot and its start.
        boot: Id of the boot it was started in.
    """

    pid: int
    started: int
    boot: str

    def is_alive(self, proc: Path = PROC) -> bool:
        """Whether this very process still runs; a zombie does not."""
        return self.boot == boot_id(proc) and start_time(self.pid, proc) == self.started

    def send(self, number: signal.Signals) -> None:
        """Sends a signal, if the process is still the same."""
        if self.is_alive():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def end(self, patience_s: float) -> None:
        """Asks it to end, kills it after `patience_s`, and waits until it is gone."""
        self.send(signal.SIGTERM)
        if not self.wait(patience_s):
            self.send(signal.SIGKILL)
            self.wait(patience_s=10.0)

    def wait(self, patience_s: float) -> bool:
        """Waits for its end; whether it came in time."""
        limit = time.monotonic() + patience_s
        while self.is_alive():
            _reap(self.pid)
            if time.monotonic() >= limit:
                return False
            time.sleep(0.02)
        return True


def identify(pid: int, proc: Path = PROC) -> Identity | None:
    """Identity of a running process, or None."""
    started = start_time(pid, proc)
    return None if started is None else Identity(pid, started, boot_id(proc))


def boot_id(proc: Path = PROC) -> str:
    """Id of the present boot."""
    return (proc / "sys" / "kernel" / "random" / "boot_id").read_text().strip()


def start_time(pid: int, proc: Path = PROC) -> int | None:
    """Start time in clock ticks since boot; None for a process that is gone or a zombie."""
    try:
        text = (proc / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else int(fields[_START_TIME_FIELD])


def commands(proc: Path = PROC) -> Iterator[tuple[int, Path, str]]:
    """Yields id, program and command line of every process that may be looked at."""
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            program = Path(os.readlink(entry / "exe").removesuffix(" (deleted)"))
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            yield int(entry.name), program, " ".join(words).strip()


def mount_points(below: Path, proc: Path = PROC) -> list[Path]:
    """Mount points at or below a directory, those mounted last first."""
    lines = (proc / "self" / "mountinfo").read_text().splitlines()
    points = [Path(_unescaped(line.split()[4])) for line in lines]
    return [point for point in reversed(points) if point.is_relative_to(below)]


def _unescaped(text: str) -> str:
    """Space, tab, newline and backslash are written in octal."""
    return text.encode("ascii", "backslashreplace").decode("unicode_escape")


def _reap(pid: int) -> None:
    """A child of ours stays a zombie until it is asked after; others are not ours to ask."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def resident_mib(pid: int, proc: Path = PROC) -> float:
    """Resident memory of a process in MiB; 0 for one that is gone."""
    with suppress(OSError):
        pages = int((proc / str(pid) / "statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    return 0.0
