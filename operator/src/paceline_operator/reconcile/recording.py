"""Decisions written to files of bounded size; whatever goes wrong with them stops nothing else.

Records go through a short queue to a thread of their own, since a disk may hang. What the queue
cannot hold is left out, and counted.
"""

from __future__ import annotations

import logging
import os
import queue
import re
import threading
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Protocol

from prometheus_client import Counter as Metric

from paceline_operator.autopilot.record import Asked, Writer

log = logging.getLogger(__name__)

FILE, FILE_BEFORE = "decisions.jsonl", "decisions.1.jsonl"
OLDER = re.compile(r"decisions\.([1-9]\d*)\.jsonl")
MOST_FILES = 64
"""Each start begins one, small ones too where a process starts again and again."""
QUEUED = 256
RETRY_S = 60.0


class Recorder(Protocol):
    """Takes decisions; never waits, never fails."""

    def note(self, key: str, asked: Asked) -> None:
        """One decision of an object."""

    def end(self, timeout_s: float) -> None:
        """Nothing follows."""


class Unrecorded:
    """Takes decisions and leaves them."""

    def note(self, key: str, asked: Asked) -> None:
        """Nothing is kept."""

    def end(self, timeout_s: float) -> None:
        """There is nothing to end."""


class RecordFile:
    """Files in a directory: the one written to, and older ones for as long as all of them fit.

    A start begins a new file. Lines that lean on none may stand in the middle of a file only by
    chance: made again they would lean on whatever they share with the line before.

    Args:
        directory: Where.
        most_bytes: Of all files together; of one, half of that.
    """

    def __init__(self, directory: Path, most_bytes: int) -> None:
        self._path = directory / FILE
        self._most_bytes = most_bytes // 2
        self._writer = Writer()
        self._left_out: set[str] = set()
        self._file = -1
        self._size = 0

    def append(self, key: str, asked: Asked) -> bool:
        """Writes one record, in full or not at all; False where it is larger than a file may be.

        What follows of an object one of whose records was left out is left out too, until the
        next file: nothing may lean on a line that is not there.

        Raises:
            OSError: The disk does not take it; the next record begins a new file.
            Exception: There is no line of it; the next one leans on the last that was written.
        """
        if self._file < 0:
            self._begin()
        if key in self._left_out:
            return False
        line = self._line(key, asked)
        if self._size and self._size + len(line) > self._most_bytes and self._fits(key, asked):
            self._begin()
            line = self._line(key, asked)
        if self._size + len(line) > self._most_bytes:
            self._left_out.add(key)
            return False
        try:
            self._put(line)
        except BaseException:
            self.close()
            raise
        return True

    def close(self) -> None:
        """Ends the file."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _line(self, key: str, asked: Asked) -> bytes:
        return f"{self._writer.line(key, asked)}\n".encode()

    def _fits(self, key: str, asked: Asked) -> bool:
        """Whether the record has room in a file that begins with it."""
        return len(Writer().line(key, asked).encode()) < self._most_bytes

    def _begin(self) -> None:
        """A new file; what the last one held is the file before."""
        self.close()
        self._writer.forget()
        self._left_out.clear()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._make_room()
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._file, self._size = os.open(self._path, flags, 0o600), 0

    def _make_room(self) -> None:
        """Number files anew from the newest on, and remove what is too much with one more."""
        numbers = sorted(self._numbers())
        sizes = accumulate(self._numbered(each).stat().st_size for each in numbers)
        kept = min(sum(size <= self._most_bytes for size in sizes), MOST_FILES)
        for number in numbers[kept:]:
            self._numbered(number).unlink()
        if 0 in numbers[:kept]:
            for number in reversed(numbers[:kept]):
                self._numbered(number).replace(self._numbered(number + 1))

    def _numbers(self) -> Iterator[int]:
        """Of the files that hold something; that of the newest is 0."""
        if self._path.exists() and self._path.stat().st_size:
            yield 0
        for each in self._path.parent.iterdir():
            if found := OLDER.fullmatch(each.name):
                yield int(found[1])

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"decisions.{number}.jsonl") if number else self._path

    def _put(self, line: bytes) -> None:
        written = 0
        try:
            while written < len(line):
                written += os.write(self._file, line[written:])
        except BaseException:
            os.ftruncate(self._file, self._size)
            raise
        self._size += written


class ThreadRecorder:
    """Writes from a thread of its own.

    Args:
        file: Where to.
        lost: Counts records that were left out.
        monotonic: Seconds of a clock that never goes back.
    """

    def __init__(self, file: RecordFile, lost: Metric, monotonic: Callable[[], float]) -> None:
        self._file, self._lost, self._monotonic = file, lost, monotonic
        self._queue: queue.Queue[tuple[str, Asked] | None] = queue.Queue(QUEUED)
        self._failing = False
        self._too_large: set[str] = set()
        self._retry_at_s = float("-inf")
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def note(self, key: str, asked: Asked) -> None:
        """Queues it, or leaves it out."""
        try:
            self._queue.put_nowait((key, asked))
        except queue.Full:
            self._lost.inc()

    def end(self, timeout_s: float) -> None:
        """Writes what is queued, for as long as this may take."""
        try:
            self._queue.put(None, timeout=timeout_s)
        except queue.Full:
            return
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (each := self._queue.get()) is not None:
            self._write(*each)
        self._file.close()

    def _write(self, key: str, asked: Asked) -> None:
        """A disk that does not take records is told of once, and asked again now and then."""
        if self._failing and self._monotonic() < self._retry_at_s:
            self._lost.inc()
            return
        try:
            if not self._file.append(key, asked):
                self._tell_size(key)
                return
        except OSError as error:
            self._leave_out(error)
        except Exception as error:
            # A defect: decisions that are not recorded stop nothing else, and no thread.
            log.exception("a decision of %s makes no record", key)
            self._leave_out(error)
        else:
            if self._failing:
                log.info("decisions are recorded again")
            self._failing = False

    def _tell_size(self, key: str) -> None:
        self._lost.inc()
        if key not in self._too_large:
            log.warning(
                "decisions of %s are larger than half of recording.maxMegabytes and are not all "
                "recorded: raise it", key,
            )  # fmt: skip
        self._too_large.add(key)

    def _leave_out(self, error: Exception) -> None:
        self._lost.inc()
        self._retry_at_s = self._monotonic() + RETRY_S
        if not self._failing:
            log.warning("decisions are not recorded: %s; tried again each minute", error)
        self._failing = True
