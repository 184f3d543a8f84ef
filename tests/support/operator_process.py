"""A really started `paceline-operator`, for tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tests.support.apiserver import free_ports
from tests.support.leash import leashed

T = TypeVar("T")
END_S = 60.0
WAIT_S = 90.0


@dataclass(frozen=True, slots=True)
class OperatorProcess:
    """One running operator.

    Attributes:
        process: The process.
        port: Where it serves metrics and probes.
        log: File with what it wrote.
    """

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a page; status 0 where nothing answers."""
        url = f"http://127.0.0.1:{self.port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=5) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def said(self) -> str:
        """Everything it wrote so far."""
        return self.log.read_text(errors="replace")

    def wait_for(self, text: str, timeout_s: float = WAIT_S) -> None:
        """Wait until it has written a text."""
        limit = time.monotonic() + timeout_s
        while text not in self.said():
            assert self.process.poll() is None, f"ended early:\n{self.said()}"
            assert time.monotonic() < limit, f"no {text!r} in:\n{self.said()}"
            time.sleep(0.05)

    def pause(self) -> None:
        """Stop it in its tracks."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it run on."""
        self.process.send_signal(signal.SIGCONT)

    def eventually(self, check: Callable[[], T], within_s: float = WAIT_S) -> T:
        """Wait for a check to return something true, and return that."""
        limit = time.monotonic() + within_s
        while not (found := check()):
            assert self.process.poll() is None, f"ended early:\n{self.said()}"
            assert time.monotonic() < limit, f"not within {within_s} s:\n{self.said()}"
            time.sleep(0.1)
        return found


@contextmanager
def operator_process(
    kubeconfig: Path,
    directory: Path,
    name: str = "one",
    settings: Mapping[str, Any] | None = None,
    **environment: str,
) -> Iterator[OperatorProcess]:
    """Start an operator against an API server, and end it."""
    (port,) = free_ports(1)
    log = directory / f"operator-{name}.log"
    file = directory / f"settings-{name}.yaml"
    file.write_text(yaml.safe_dump(dict(settings or {})))
    variables = {
        **os.environ,
        "PACELINE_SETTINGS": str(file),
        "KUBECONFIG": str(kubeconfig),
        "PACELINE_HTTP_PORT": str(port),
        "POD_NAME": f"operator-{name}",
        "POD_NAMESPACE": "default",
        **environment,
    }
    with log.open("wb") as sink:
        process = subprocess.Popen(
            leashed([sys.executable, "-m", "paceline_operator.main"]),
            env=variables, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
        )  # fmt: skip
    try:
        yield OperatorProcess(process, port, log)
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
