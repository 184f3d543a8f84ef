"""The loads of the evaluation, by name."""

from __future__ import annotations

from pathlib import Path

from bench.conformance.load_case import LoadCase
from bench.conformance.seeded_loads import seeded_loads
from bench.conformance.trace_loads import trace_loads


def loads(traces: Path | None, most_requests: int | None = None) -> tuple[LoadCase, ...]:
    """The seeded ones, and one of each trace.

    Args:
        traces: Folder of traces, None for none.
        most_requests: See `trace_loads.trace_load`.

    Raises:
        TraceError: A trace cannot be used.
    """
    return seeded_loads() + (trace_loads(traces, most_requests) if traces else ())


def traces_word(cases: tuple[LoadCase, ...]) -> str:
    """The traces among them by name, for the last line of a run; `none` where there is none."""
    return ",".join(case.name for case in cases if case.trace) or "none"
