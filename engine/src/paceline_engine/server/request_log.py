"""A JSON line for each request that has ended, written beside the event loop.

Serving goes first: a full disk, a closed pipe or a reader that does not read costs lines,
counted in the process log, and nothing else. Rotation is left to whoever reads: the file is
opened for appending and never moved or cut.
"""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

import msgspec

from paceline_engine.server.request_record import RequestRecord

STANDARD_OUTPUT: Final = "-"
MOST_PENDING: Final = 10_000
MOST_AT_ONCE: Final = 256
CLOSE_S: Final = 2.0
WARN_EVERY_S: Final = 60.0

_log = logging.getLogger(__name__)


class RequestLogError(Exception):
    """The file cannot be written; the message is one line."""


def open_sink(target: str) -> int:
    """Opens a file or pipe for appending, or standard output for `-`.

    Returns:
        A file descriptor of its own.

    Raises:
        RequestLogError: It cannot be opened.
    """
    if target == STANDARD_OUTPUT:
        return os.dup(sys.__stdout__.fileno()) if sys.__stdout__ else _refuse(target, "closed")
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(target, flags, 0o640)
    except OSError as error:
        return _refuse(target, error.strerror or str(error))
    os.set_blocking(descriptor, True)
    return descriptor


def _refuse(target: str, reason: str) -> int:
    raise RequestLogError(f"cannot write the request log to {target}: {reason}")


class RequestLog:
    """Takes records at any rate and writes them in a thread of its own.

    Args:
        descriptor: Where to; closed at the end.
        write: `os.write`, or what stands for it.
    """

    def __init__(self, descriptor: int, write: Callable[[int, bytes], int] = os.write) -> None:
        self._descriptor = descriptor
        self._write = write
        self._pending: queue.Queue[RequestRecord | None] = queue.Queue(MOST_PENDING)
        self._encoder = msgspec.json.Encoder()
        self._torn = False
        self._lost = 0
        self._warned_at_s = float("-inf")
        self._thread = threading.Thread(target=self._run, name="request-log", daemon=True)
        self._thread.start()

    def add(self, record: RequestRecord) -> None:
        """Queues a record; never waits. One that finds the queue full is lost."""
        try:
            self._pending.put_nowait(record)
        except queue.Full:
            self._lose(1, "nobody takes its lines")

    def close(self) -> None:
        """Writes what is queued, for a moment at most."""
        try:
            self._pending.put(None, timeout=CLOSE_S)
        except queue.Full:
            return
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while (first := self._pending.get()) is not None:
            records, goes_on = self._gather(first)
            self._put(records)
            if not goes_on:
                break
        os.close(self._descriptor)

    def _gather(self, first: RequestRecord) -> tuple[list[RequestRecord], bool]:
        records = [first]
        while len(records) < MOST_AT_ONCE:
            try:
                record = self._pending.get_nowait()
            except queue.Empty:
                break
            if record is None:
                return records, False
            records.append(record)
        return records, True

    def _put(self, records: list[RequestRecord]) -> None:
        lines = b"".join(self._encoder.encode(record) + b"\n" for record in records)
        data = b"\n" + lines if self._torn else lines
        try:
            while data:
                written = self._write(self._descriptor, data)
                self._torn = not data[:written].endswith(b"\n") if written else self._torn
                data = data[written:]
        except OSError as error:
            self._lose(max(1, data.count(b"\n")), error.strerror or str(error))

    def _lose(self, count: int, reason: str) -> None:
        self._lost += count
        now_s = time.monotonic()
        if now_s - self._warned_at_s >= WARN_EVERY_S:
            self._warned_at_s = now_s
            _log.warning("request log: %d lines lost so far: %s", self._lost, reason)


def open_request_log(target: str | None) -> RequestLog | None:
    """The log of a target, as `open_sink` takes it; None for none.

    Raises:
        RequestLogError: It cannot be opened.
    """
    return None if target is None else RequestLog(open_sink(target))
