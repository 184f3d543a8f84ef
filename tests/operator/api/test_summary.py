"""Columns of `kubectl get`."""

from __future__ import annotations

import pytest

from paceline_operator.api.choice import SloMetric, Tier
from paceline_operator.api.status import BudgetStatus, InferenceServiceStatus, SloStatus
from paceline_operator.api.summary import summarize


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        (InferenceServiceStatus(), "0/0"),
        (InferenceServiceStatus(replicas=3, ready_replicas=2), "2/3"),
        (InferenceServiceStatus(replicas=3, ready_replicas=3, desired_replicas=5), "3/5"),
        (InferenceServiceStatus(replicas=1, ready_replicas=1, desired_replicas=0), "1/0"),
    ],
)
def test_replicas(status: InferenceServiceStatus, wanted: str) -> None:
    assert summarize(status).replicas == wanted


@pytest.mark.parametrize(
    ("budget", "wanted"),
    [
        (BudgetStatus(), "-"),
        (BudgetStatus(desired=512), "512"),
        (BudgetStatus(desired=512, effective=256, acknowledged=2, total=2), "256"),
        (BudgetStatus(desired=512, effective=256, acknowledged=1, total=2), "256 (1/2)"),
        (BudgetStatus(desired=512, acknowledged=0, total=2), "512 (0/2)"),
    ],
)
def test_budget(budget: BudgetStatus, wanted: str) -> None:
    assert summarize(InferenceServiceStatus(budget=budget)).budget == wanted


def slo(
    metric: SloMetric = SloMetric.TTFT,
    target_ms: int = 500,
    measured_ms: float | None = None,
    percentile: int = 95,
    tier: Tier = Tier.INTERACTIVE,
) -> SloStatus:
    name = f"{metric}-{tier}-{percentile}"
    return SloStatus(
        name=name,
        metric=metric,
        target_ms=target_ms,
        measured_ms=measured_ms,
        percentile=percentile,
        tier=tier,
    )


@pytest.mark.parametrize(
    ("slos", "ttft", "itl"),
    [
        ((), "", ""),
        ((slo(),), "-/500ms", ""),
        ((slo(measured_ms=432.4),), "432/500ms", ""),
        ((slo(measured_ms=0.04),), "0.0/500ms", ""),
        ((slo(SloMetric.ITL, 12, 9.94),), "", "9.9/12ms"),
        ((slo(SloMetric.ITL, 12, 9.96),), "", "10/12ms"),
        ((slo(measured_ms=61234.0, target_ms=60000),), "61234/60000ms", ""),
        ((slo(percentile=50), slo(percentile=99, target_ms=900)), "-/900ms", ""),
        ((slo(percentile=99, tier=Tier.BATCH), slo(target_ms=200)), "-/200ms", ""),
        ((slo(tier=Tier.BATCH, target_ms=9000),), "-/9000ms", ""),
        ((slo(SloMetric.TPOT), slo(SloMetric.E2E)), "", ""),
    ],
)
def test_latencies_show_the_strictest_interactive_objective(
    slos: tuple[SloStatus, ...], ttft: str, itl: str
) -> None:
    summary = summarize(InferenceServiceStatus(slos=slos))
    assert (summary.ttft, summary.itl) == (ttft, itl)


def test_what_was_in_the_summary_plays_no_part() -> None:
    status = InferenceServiceStatus(ready_replicas=1, replicas=1)
    again = status.model_copy(update={"summary": summarize(status)})
    assert summarize(again) == summarize(status)
