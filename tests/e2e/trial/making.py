"""Figures and outcomes made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from e2e.load.record import Outcome as RequestOutcome
from e2e.load.record import Record
from e2e.trial.figures import Figures, Share
from e2e.trial.verdict import Outcome, Part

FIGURES = Figures(
    ttft=Share(95, 100),
    itl=Share(990, 1000),
    goodput=Share(94, 100),
    replica_hours=0.5,
    replicas_least=2,
    replicas_most=5,
)


def part(seen: Figures = FIGURES, **changes: Any) -> Part:
    """One as predicted, but for what is changed."""
    good = Part(
        seen=seen,
        predicted=FIGURES,
        cold_start_s=13.0,
        idle_s=20.0,
        host_cpu=0.4,
        outside_cpu=0.01,
        lag_ms=3.0,
    )
    return replace(good, **changes)


def outcome(**changes: Any) -> Outcome:
    """A good one, but for what is changed."""
    good = Outcome(
        requests=100,
        refused=2,
        refused_beside_faults=0,
        lost=(),
        lost_on_killed=1,
        silences=(),
        direct=part(),
        by_prometheus=None,
        unmended=(),
        mended=("an engine: killed",),
        converge_s=4.0,
    )
    return replace(good, **changes)


def record(scheduled_s: float, ttft_ms: float | None, *gaps_ms: float) -> Record:
    """A whole answer, or a lost one where no first token came."""
    is_lost = ttft_ms is None
    return Record(
        id=1,
        phase="calm",
        kind="chat",
        streamed=True,
        scheduled_s=scheduled_s,
        sent_s=scheduled_s,
        ended_s=scheduled_s + 5.0,
        ttft_ms=ttft_ms,
        gaps_ms=gaps_ms,
        prompt_tokens=10,
        tokens=1 + len(gaps_ms),
        status=200,
        outcome=RequestOutcome.LOST if is_lost else RequestOutcome.OK,
        error="reset" if is_lost else None,
    )
