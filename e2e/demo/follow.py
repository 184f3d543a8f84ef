"""Follows a running load Job: records as they come, the live table, and moments to act at."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from e2e.demo.live import LiveTable, row_of
from e2e.job import FIRST_LINE_S, LoadJob, LoadLog, read_log
from e2e.load.record import Record, read_records

REFRESH_S = 1.0
SENT_LINES = 3
_PROGRESS = re.compile(r"load: (\d+) s sent=(\d+)/")


@dataclass(slots=True)
class Followed:
    """Records of a Job, growing while it runs.

    Attributes:
        records: In the order in which requests ended.
        sent: (seconds since the start, requests sent), as the generator tells now and then.
    """

    records: list[Record] = field(default_factory=list)
    sent: list[tuple[float, int]] = field(default_factory=lambda: [(0.0, 0)])

    def add(self, line: str) -> None:
        """Takes in one line of the log."""
        if told := _PROGRESS.match(line):
            self.sent.append((float(told[1]), int(told[2])))
        else:
            self.records.extend(read_records([line]))

    @property
    def rate_rps(self) -> float:
        """Requests sent per second, lately."""
        (since_s, before), (now_s, after) = self.sent[-SENT_LINES:][0], self.sent[-1]
        return (after - before) / (now_s - since_s) if now_s > since_s else 0.0


def follow(
    job: LoadJob,
    table: LiveTable,
    phase: Callable[[float], str],
) -> LoadLog:
    """Shows the table until the Job ends, and returns all that it recorded.

    Args:
        job: Started.
        table: Shows a row each second.
        phase: Called each second with the seconds since the start: acts if it is time, and
            returns the phase's name.

    Raises:
        KubectlError: The Job failed.
    """
    followed = Followed()
    reader = threading.Thread(target=read, args=(job, followed), daemon=True)
    started_s = time.time()
    ends_s = started_s + job.deadline_s + FIRST_LINE_S
    reader.start()
    with table:
        while reader.is_alive() and time.time() < ends_s:
            now_s = time.time()
            name = phase(now_s - started_s)
            row = row_of(
                list(followed.records),
                elapsed_s=now_s - started_s,
                now_s=now_s,
                phase=name,
                rate_rps=followed.rate_rps,
            )
            table.show(row)
            time.sleep(max(0.05, REFRESH_S - (time.time() - now_s)))
    job.wait_complete()
    return read_log(job.lines())


class Followable(Protocol):
    """A Job whose log can be followed."""

    def follow(self) -> Iterable[str]:
        """Lines from the start on, as they come."""
        ...

    def has_ended(self) -> bool:
        """Whether it has ended."""
        ...


def read(job: Followable, followed: Followed, pause_s: float = REFRESH_S) -> None:
    """Reads until the Job has ended; a log that breaks off is read again from its start."""
    while True:
        again = Followed()
        for line in job.follow():
            again.add(line)
            if len(again.sent) >= len(followed.sent):
                followed.records, followed.sent = again.records, again.sent
        if job.has_ended():
            return
        time.sleep(pause_s)
