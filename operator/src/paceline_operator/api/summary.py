"""The columns of `kubectl get`: short strings derived from the rest of the status.

A column shows the strictest objective of its metric, that of the highest percentile for the
interactive tier, as `measured/target`.
"""

from __future__ import annotations

from collections.abc import Iterable

from paceline_operator.api.choice import SloMetric, Tier
from paceline_operator.api.status import (
    BudgetStatus,
    InferenceServiceStatus,
    SloStatus,
    Summary,
)

UNKNOWN = "-"


def summarize(status: InferenceServiceStatus) -> Summary:
    """Columns for a status; the `summary` already in it plays no part."""
    wanted = status.replicas if status.desired_replicas is None else status.desired_replicas
    return Summary(
        replicas=f"{status.ready_replicas}/{wanted}",
        budget=_budget(status.budget),
        ttft=_latency(status.slos, SloMetric.TTFT),
        itl=_latency(status.slos, SloMetric.ITL),
    )


def _budget(budget: BudgetStatus) -> str:
    """Budget in force, and who acknowledged it while not all engines have."""
    value = budget.desired if budget.effective is None else budget.effective
    if value is None:
        return UNKNOWN
    if budget.acknowledged >= budget.total:
        return str(value)
    return f"{value} ({budget.acknowledged}/{budget.total})"


def _latency(slos: Iterable[SloStatus], metric: SloMetric) -> str:
    shown = max((slo for slo in slos if slo.metric is metric), key=_precedence, default=None)
    if shown is None:
        return ""
    return f"{_measured(shown.measured_ms)}/{shown.target_ms}ms"


def _measured(latency_ms: float | None) -> str:
    if latency_ms is None:
        return UNKNOWN
    return f"{latency_ms:.0f}" if latency_ms >= 9.95 else f"{latency_ms:.1f}"


def _precedence(slo: SloStatus) -> tuple[bool, int]:
    return slo.tier is Tier.INTERACTIVE, slo.percentile
