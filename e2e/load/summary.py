"""The figures of a run at a glance, by phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from e2e.load.record import Outcome, Record
from e2e.load.report import percentile

PERCENTS = (50, 95, 99)


def summarise(records: Sequence[Record]) -> dict[str, Any]:
    """Counts, rates and percentiles over all requests, and of each phase."""
    phases = dict.fromkeys(record.phase for record in records)
    return {
        **figures(records),
        "phases": {
            phase: figures([record for record in records if record.phase == phase])
            for phase in phases
        },
    }


def figures(records: Sequence[Record]) -> dict[str, Any]:
    """Counts and percentiles of some requests."""
    counts = Counter(record.outcome for record in records)
    return {
        "requests": len(records),
        **{outcome.value: counts[outcome] for outcome in Outcome},
        "prompt_tokens": sum(record.prompt_tokens for record in records),
        "output_tokens": sum(record.tokens for record in records),
        "ttft_ms": _percentiles(r.ttft_ms for r in records if r.ttft_ms is not None),
        "itl_ms": _percentiles(gap for record in records for gap in record.gaps_ms),
    }


def _percentiles(values: Iterable[float]) -> dict[str, float | None]:
    kept = sorted(values)
    found = {f"p{percent}": percentile(kept, percent) for percent in PERCENTS}
    return {name: None if value is None else round(value, 1) for name, value in found.items()}
