"""The two servers: how each is started, when it is ready, and how it is asked."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

START_S = 300
STOP_S = 30


class ContenderError(Exception):
    """A server did not come up, or answered wrongly; one line."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One side of the comparison.

    Attributes:
        name: Column in the table.
        command: From the model's directory, a list of three free ports and the threads to
            compute with; `OMP_NUM_THREADS` says the same to either side.
        ready_port: Which of the ports answers `ready_path` with 200 once it serves.
        ready_path: See `ready_port`.
        body: Request fields beside model, prompt, max_tokens, temperature and stream.
    """

    name: str
    command: Callable[[Path, list[int], int], list[str]]
    ready_port: int
    ready_path: str
    body: dict[str, Any]


def _paceline(model: Path, ports: list[int], threads: int) -> list[str]:
    api, health, admin = map(str, ports)
    return [
        str(Path(sys.executable).parent / "paceline-engine"), "serve", "--model", str(model),
        "--served-name", str(model), "--device", "cpu", "--max-num-seqs", "32",
        "--max-model-len", "2048", "--host", "127.0.0.1", "--port", api,
        "--health-port", health, "--admin-port", admin, "--threads", str(threads),
    ]  # fmt: skip


def _transformers(model: Path, ports: list[int], _threads: int) -> list[str]:
    return [
        str(Path(sys.executable).parent / "transformers"), "serve", str(model),
        "--continuous-batching", "--device", "cpu", "--dtype", "float32",
        "--host", "127.0.0.1", "--port", str(ports[0]),
    ]  # fmt: skip


PACELINE = Contender(
    name="paceline-engine serve",
    command=_paceline,
    ready_port=1,
    ready_path="/readyz",
    body={"ignore_eos": True, "stream_options": {"include_usage": True}},
)
TRANSFORMERS = Contender(
    name="transformers serve --continuous-batching",
    command=_transformers,
    ready_port=0,
    ready_path="/health",
    body={"generation_config": json.dumps({"eos_token_id": -1, "do_sample": False})},
)


@contextlib.contextmanager
def serving(contender: Contender, model: Path, log: Path, threads: int) -> Iterator[str]:
    """Runs the server in a process group of its own; gives its base URL.

    Raises:
        ContenderError: It is not ready in time; names the log.
    """
    ports = free_ports(3)
    with log.open("ab") as output:
        process = subprocess.Popen(
            contender.command(model, ports, threads),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment(threads),
        )
    try:
        _wait(process, f"http://127.0.0.1:{ports[contender.ready_port]}{contender.ready_path}", log)
        yield f"http://127.0.0.1:{ports[0]}"
    finally:
        _stop(process)


def environment(threads: int) -> dict[str, str]:
    """Environment of either server: the same threads, and no network."""
    return os.environ | {
        "OMP_NUM_THREADS": str(threads),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
    }


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ContenderError(f"the server ended with code {process.returncode}; see {log}")
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(url, timeout=5).status_code == 200:
                return
        time.sleep(0.5)
    raise ContenderError(f"no answer from {url} within {START_S} s; see {log}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends the group: politely, then not."""
    for wanted in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, wanted)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
            break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
