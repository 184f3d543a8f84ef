from __future__ import annotations

import errno
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline_engine.server import request_log
from paceline_engine.server.flags import EXIT_BAD_START
from paceline_engine.server.request_log import RequestLog, RequestLogError, open_sink
from paceline_engine.server.request_record import RequestRecord, tenant_digest

WAIT_S = 20


def record(name: str) -> RequestRecord:
    return RequestRecord(
        request_id=name,
        index=0,
        tier="interactive",
        tenant=tenant_digest("acme"),
        outcome="stop",
        received_at=1.5,
        prompt_tokens=3,
        cached_tokens=0,
        output_tokens=2,
        emissions=2,
        queue_s=0.1,
        ttft_s=0.2,
        mean_itl_s=0.05,
        e2e_s=0.25,
    )


def ids(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["request_id"] for line in lines if line]


def test_one_line_a_record_appended_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for part in ("a", "b"):
        log = RequestLog(open_sink(str(path)))
        for number in range(300):
            log.add(record(f"{part}{number}"))
        log.close()
    assert ids(path) == [f"{part}{number}" for part in "ab" for number in range(300)]
    assert json.loads(path.read_text().splitlines()[0]) == {
        "request_id": "a0", "index": 0, "tier": "interactive", "tenant": tenant_digest("acme"),
        "outcome": "stop", "received_at": 1.5, "prompt_tokens": 3, "cached_tokens": 0,
        "output_tokens": 2, "emissions": 2, "queue_s": 0.1, "ttft_s": 0.2, "mean_itl_s": 0.05,
        "e2e_s": 0.25,
    }  # fmt: skip


def test_a_tenants_name_is_not_in_its_digest() -> None:
    assert tenant_digest("acme") == tenant_digest("acme") != tenant_digest("acme2")
    assert "acme" not in tenant_digest("acme")
    assert tenant_digest("") == ""


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_cannot_be_written_is_said_at_once(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """A directory, or a pipe that nobody reads: neither may hang the start."""
    path = tmp_path / "log"
    make(path)
    with pytest.raises(RequestLogError, match="cannot write the request log to"):
        open_sink(str(path))


def test_a_server_that_cannot_write_it_does_not_start(tmp_path: Path) -> None:
    flags = ("--device=simulated", "--step-coefficients=base_ms=1,per_token_ms=0")
    ports = ("--host=127.0.0.1", "--port=0", "--health-port=0", "--admin-port=0")
    log = f"--request-log={tmp_path}/none/log"
    command = [sys.executable, "-m", "paceline_engine", "serve", *flags, *ports, log]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert ended.returncode == EXIT_BAD_START
    assert "Traceback" not in ended.stderr
    assert f"cannot write the request log to {tmp_path}/none/log" in ended.stderr.splitlines()[-1]


class FullDisk:
    """Takes 40 bytes, then no more until it is freed."""

    def __init__(self) -> None:
        self.is_full = True
        self.tried = threading.Event()

    def write(self, descriptor: int, data: bytes) -> int:
        if not self.is_full:
            return os.write(descriptor, data)
        if len(data) > 40:
            return os.write(descriptor, data[:40])
        self.tried.set()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.behaviour(
    "A full disk or a closed pipe costs lines of the request log, never requests",
    report="own risk: a log on the serving path",
)
def test_a_full_disk_costs_lines_and_no_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, disk = tmp_path / "log", FullDisk()
    log = RequestLog(open_sink(str(path)), disk.write)
    with caplog.at_level(logging.WARNING):
        log.add(record("x" * (40 - len('{"request_id":"') - 5)))
        log.add(record("lost"))
        while not disk.tried.wait(0.01):
            log.add(record("short of room"))
        disk.is_full = False
        log.add(record("after"))
        log.close()
    assert "No space left" in caplog.text
    lines = path.read_text().splitlines()
    assert json.loads(lines[-1])["request_id"] == "after"  # on a line of its own


def test_a_closed_pipe_costs_lines_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    reader, writer = os.pipe()
    log = RequestLog(writer)
    os.close(reader)
    with caplog.at_level(logging.WARNING):
        for number in range(1000):
            log.add(record(str(number)))
        log.close()
    assert "Broken pipe" in caplog.text
    assert caplog.text.count("lines lost") == 1


def test_a_reader_that_does_not_read_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(request_log, "CLOSE_S", 0.05)
    reader, writer = os.pipe()
    log = RequestLog(writer)
    with caplog.at_level(logging.WARNING):
        for number in range(request_log.MOST_PENDING + 2000):
            log.add(record(str(number)))
        log.close()
    assert "nobody takes its lines" in caplog.text
    os.close(reader)  # the blocked write ends, and with it the thread
    log.close()
