"""A really started `paceline-engine serve`, for tests: processes, ports and all."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from queue import Empty, Queue

import httpx

from tests.support.leash import leashed

FAST_LAW = "base_ms=2,per_token_ms=0.01"
START_S = 90
END_S = 60


@dataclass
class EngineServer:
    """One running server with its engine.

    Attributes:
        process: The server process; its only child is the engine.
        api: Base URL of the API port; `health` and `admin` likewise.
        log: Lines on stderr so far.
    """

    process: subprocess.Popen[str]
    api: str = ""
    health: str = ""
    admin: str = ""
    log: list[str] = field(default_factory=list)
    _lines: Queue[str | None] = field(default_factory=Queue)

    def wait_for(self, text: str, timeout_s: float = START_S) -> str:
        """Waits for a line on stderr that holds `text`."""
        while True:
            try:
                line = self._lines.get(timeout=timeout_s)
            except Empty:
                raise AssertionError(f"no {text!r} within {timeout_s} s in {self.log}") from None
            if line is None:
                raise AssertionError(f"ended without {text!r}: {self.log}")
            if text in line:
                return line

    def metrics(self) -> str:
        """The metrics page."""
        return httpx.get(f"{self.health}/metrics", timeout=5).text

    def value(self, name: str, **labels: str) -> float:
        """Sum of the series of a family (name without prefix) that have these labels."""
        total = 0.0
        for line in self.metrics().splitlines():
            series, _, number = line.rpartition(" ")
            if re.match(rf"paceline_engine_{name}(\{{|$)", series) and all(
                f'{key}="{value}"' in series for key, value in labels.items()
            ):
                total += float(number)
        return total

    def engine_pid(self) -> int:
        """Process id of the engine."""
        path = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        with open(path, encoding="ascii") as children:
            return int(children.read().split()[0])

    def terminate(self) -> None:
        """Sends SIGTERM."""
        self.process.send_signal(signal.SIGTERM)

    def wait(self, timeout_s: float = END_S) -> int:
        """Exit code, once it has ended."""
        return self.process.wait(timeout_s)

    def read_lines(self) -> None:
        """Collects stderr until it ends."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line.rstrip())
            self._lines.put(line)
        self._lines.put(None)


@contextlib.contextmanager
def engine_server(
    *flags: str, law: str | None = FAST_LAW, ready: bool = True
) -> Iterator[EngineServer]:
    """Starts a server on free ports of loopback, simulated unless `law` is None."""
    simulated = ("--device=simulated", f"--step-coefficients={law}") if law else ()
    ports = ("--host=127.0.0.1", "--port=0", "--health-port=0", "--admin-port=0")
    process = subprocess.Popen(
        leashed([sys.executable, "-m", "paceline_engine", "serve", *simulated, *ports, *flags]),
        stderr=subprocess.PIPE,
        text=True,
    )
    server = EngineServer(process)
    reader = threading.Thread(target=server.read_lines)
    reader.start()
    try:
        line = server.wait_for("listening:")
        for name, address in re.findall(r"(\w+)=([\d.]+:\d+)", line):
            setattr(server, name, f"http://{address}")
        if ready:
            server.wait_for("ready after")
        yield server
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(END_S)
        reader.join()
        if process.stderr is not None:
            process.stderr.close()


def eventually(check: Callable[[], bool], within_s: float = 60) -> None:
    """Waits for a state that another process reaches by itself."""
    deadline = time.monotonic() + within_s
    while not check():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)
