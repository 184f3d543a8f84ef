"""A real engine on loopback, and the load generator in a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from e2e.job import LoadLog, read_log

START_S = 120.0
STOP_S = 20.0
HERE = "127.0.0.1"
MODEL = "validation"


class ServedEngineError(Exception):
    """The engine or the load generator failed; one line."""


@contextlib.contextmanager
def serving(program: Path, flags: Sequence[str], log: Path) -> Iterator[str]:
    """Runs an engine in a process group of its own; gives its base URL.

    Raises:
        ServedEngineError: It is not ready in time; names the log.
    """
    api, health, admin = _free_ports(3)
    command = [
        *(str(program), "serve", "--served-name", MODEL, "--host", HERE, "--port", str(api)),
        *("--health-port", str(health), "--admin-port", str(admin), *flags),
    ]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait(process, f"http://{HERE}:{health}/readyz", log)
        yield f"http://{HERE}:{api}"
    finally:
        end(process)


def load(url: str, flags: Sequence[str]) -> LoadLog:
    """Sends a load to its end.

    Raises:
        ServedEngineError: The generator failed.
    """
    where = ["--url", url, "--model", MODEL, "--route", "completions", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "e2e.load", *where, *flags],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate()
    finally:
        end(process)
    if process.returncode:
        raise ServedEngineError(f"the load generator ended with code {process.returncode}")
    return read_log(output.splitlines())


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HERE, 0))
        return [each.getsockname()[1] for each in sockets]


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s:
        if process.poll() is not None:
            raise ServedEngineError(f"the engine ended with code {process.returncode}; see {log}")
        if _answers(url):
            return
        time.sleep(0.2)
    raise ServedEngineError(f"no answer from {url} within {START_S:.0f} s; see {log}")


def _answers(url: str) -> bool:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(url, timeout=2) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def end(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """Ends the group: politely, then not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
