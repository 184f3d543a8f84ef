"""The live table: what the fleet does while the load runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table

from e2e.demo.observer import Observer
from e2e.load.record import Outcome, Record
from e2e.load.report import percentile

RECENT_S = 15.0
LINE_EVERY_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table, measured over the last 15 s at the client."""

    elapsed_s: float
    phase: str
    rate_rps: float
    ttft_p95_ms: float | None
    itl_p95_ms: float | None
    lost: int


def row_of(
    records: Sequence[Record], *, elapsed_s: float, now_s: float, phase: str, rate_rps: float
) -> Row:
    """Sums up the requests that ended lately."""
    since = now_s - RECENT_S
    recent = [record for record in records if record.ended_s >= since]
    ttft = [record.ttft_ms for record in recent if record.ttft_ms is not None]
    gaps = [gap for record in recent for gap in record.gaps_ms]
    return Row(
        elapsed_s=elapsed_s,
        phase=phase,
        rate_rps=rate_rps,
        ttft_p95_ms=percentile(ttft, 95),
        itl_p95_ms=percentile(gaps, 95),
        lost=sum(1 for record in records if record.outcome is Outcome.LOST),
    )


class LiveTable:
    """Shows rows as they come: a table on a terminal, a line each 10 s elsewhere.

    Attributes:
        title: Above the table.
        ttft_target_ms: Objective.
        itl_target_ms: Objective.
    """

    def __init__(
        self, title: str, observer: Observer, ttft_target_ms: float, itl_target_ms: float
    ) -> None:
        self.title = title
        self.ttft_target_ms = ttft_target_ms
        self.itl_target_ms = itl_target_ms
        self._observer = observer
        self._console = Console(file=sys.stdout)
        self._live = Live(console=self._console, refresh_per_second=1, transient=True)
        self._printed_s = 0.0

    def __enter__(self) -> LiveTable:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def show(self, row: Row) -> None:
        """Replaces what is shown."""
        if self._console.is_terminal:
            self._live.update(self._table(row))
        elif time.monotonic() - self._printed_s >= LINE_EVERY_S:
            self._printed_s = time.monotonic()
            print(self._line(row), flush=True)

    def _cells(self, row: Row) -> list[tuple[str, str]]:
        sample = self._observer.last
        moved = self._observer.decisions
        last = moved[-1] if moved else None
        return [
            ("time", f"{row.elapsed_s:.0f} s"),
            ("phase", row.phase),
            ("load", f"{row.rate_rps:.1f} req/s"),
            ("TTFT p95", _latency(row.ttft_p95_ms, self.ttft_target_ms)),
            ("ITL p95", _latency(row.itl_p95_ms, self.itl_target_ms)),
            ("budget", str(sample.budget or "-")),
            ("running cap", str(sample.running_seqs or "-")),
            ("replicas", f"{sample.ready}/{sample.replicas}"),
            ("restarts", str(sample.restarts)),
            ("lost", str(row.lost)),
            ("host CPU", f"{sample.cpu_percent:.0f} %"),
            ("last move", f"{last.action} {last.knob}: {last.reason}" if last else "-"),
        ]

    def _table(self, row: Row) -> Table:
        table = Table(title=self.title, title_justify="left", show_header=False)
        table.add_column(style="bold")
        table.add_column(min_width=60)
        for name, value in self._cells(row):
            table.add_row(name, value)
        sample = self._observer.decisions[-1:]
        for decision in sample:
            table.add_row("why", decision.message)
        return table

    def _line(self, row: Row) -> str:
        cells = self._cells(row)
        time_text = cells[0][1]
        return f"  [{time_text:>6}] " + "  ".join(f"{name} {value}" for name, value in cells[1:])


def _latency(value_ms: float | None, target_ms: float) -> str:
    if value_ms is None:
        return "-"
    return f"{value_ms:.0f}/{target_ms:.0f} ms{' !' if value_ms > target_ms else ''}"
