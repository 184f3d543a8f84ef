"""How long a failed pass puts the next one off."""

from __future__ import annotations

import logging

import pytest

from paceline_operator.kube.errors import ConflictError, InvalidError, KubeError, UnavailableError
from paceline_operator.kube.store import Key
from paceline_operator.metrics import SCRAPE_INTERVAL_S, STALE_AFTER_INTERVALS, Scrape
from paceline_operator.reconcile import workers
from paceline_operator.reconcile.context import Context
from tests.operator.reconcile.test_tick import (
    KEY,
    FailingApi,
    NoMetrics,
    ObedientEngines,
    made_context,
)


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> workers.Workers:
    """Workers whose every pass fails."""

    async def fail(_: Context, __: Key) -> float:
        raise error

    monkeypatch.setattr(workers, "tick", fail)
    return workers.Workers(made_context(FailingApi(), ObedientEngines(), NoMetrics()), 1)


@pytest.mark.parametrize(
    ("error", "delays"),
    [
        (UnavailableError("away"), [0.5, 1.0, 2.0, 4.0, SCRAPE_INTERVAL_S, SCRAPE_INTERVAL_S]),
        (ConflictError("changed"), [0.5, 1.0, 2.0, 4.0, 8.0, 16.0]),
    ],
    ids=["measuring goes on while the server is away", "a conflict is tried ever less often"],
)
async def test_failed_passes(
    monkeypatch: pytest.MonkeyPatch, error: KubeError, delays: list[float]
) -> None:
    made = failing(monkeypatch, error)
    assert [await made._pass(KEY) for _ in delays] == delays


@pytest.mark.behaviour(
    "a pass that fails again and again goes on measuring: the law is not left without a load",
    report="with a status that was refused passes came a minute apart, and no growth was known",
)
@pytest.mark.parametrize(
    "error", [ConflictError("changed"), InvalidError("status: no"), ValueError()]
)
async def test_pods_that_are_measured_are_measured_on(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    made = failing(monkeypatch, error)
    made.ctx.session(KEY).scrape = Scrape(pods={}, slices=())
    assert [await made._pass(KEY) for _ in range(8)][-1] == workers.MEASURED_BACKOFF_S
    assert workers.MEASURED_BACKOFF_S < STALE_AFTER_INTERVALS * SCRAPE_INTERVAL_S


async def test_a_conflict_is_told_once_it_is_no_chance(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A new fleet's Deployment changes under the first writes; they are simply made again."""

    made = failing(monkeypatch, ConflictError("the object has been modified"))
    with caplog.at_level(logging.INFO):
        for _ in range(workers.CONFLICTS_BY_CHANCE):
            await made._pass(KEY)
        assert caplog.messages == []
        await made._pass(KEY)
    assert caplog.messages == ["d/chat: the object has been modified"]


async def test_a_pass_that_has_failed_for_days_ends_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = failing(monkeypatch, ValueError())
    made._failures[KEY] = 5000
    assert await made._pass(KEY) == workers.MAX_BACKOFF_S
