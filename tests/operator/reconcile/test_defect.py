"""A defect that ends every pass of an object stands in its status."""

from __future__ import annotations

from typing import Any

import pytest

from paceline_operator.kube.errors import ConflictError, LeaseLostError
from paceline_operator.kube.resource import INFERENCE_SERVICE
from paceline_operator.reconcile import tick as passes
from paceline_operator.reconcile import workers
from paceline_operator.reconcile.context import Context
from tests.operator.reconcile.test_tick import (
    KEY,
    FailingApi,
    NoMetrics,
    ObedientEngines,
    changing,
    gathers,
    made_context,
)

SECRET = "hunter2"
METADATA = {"name": "chat", "namespace": "d", "uid": "u", "generation": 1, "resourceVersion": "5"}


@pytest.fixture
def api() -> FailingApi:
    return FailingApi()


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Have every pass end with this."""

    async def fail(_: Context, __: tuple[str, str]) -> None:
        raise error

    monkeypatch.setattr(passes, "gather", fail)


def made(api: FailingApi, status: Any = None) -> workers.Workers:
    """Workers over one object with this status."""
    ctx = made_context(api, ObedientEngines(), NoMetrics())
    item: dict[str, Any] = {"metadata": METADATA, "spec": {}}
    ctx.store.put(INFERENCE_SERVICE, item if status is None else {**item, "status": status})
    return workers.Workers(ctx, 1)


def stalled(status: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(c for c in status["conditions"] if c["type"] == "Stalled")
    return found


@pytest.mark.behaviour(
    "a pass that fails twice for no reason foreseen says so in the status, until one is good",
    report="a KeyError in every pass left the status as it was for ever",
)
async def test_a_defect_is_told_from_the_second_time_on_and_taken_back(
    monkeypatch: pytest.MonkeyPatch, api: FailingApi
) -> None:
    failing(monkeypatch, KeyError(SECRET))
    made_workers = made(api)
    await made_workers._pass(KEY)
    assert api.statuses == []
    for _ in range(3):
        await made_workers._pass(KEY)
    (written,) = api.statuses
    assert (stalled(written)["status"], stalled(written)["reason"]) == ("True", "InternalError")
    assert "KeyError" in stalled(written)["message"]
    assert SECRET not in str(written)
    assert written["observedGeneration"] == 1
    assert len({each["type"] for each in written["conditions"]}) == 8
    gathers(monkeypatch, made_workers.ctx, changing())
    await made_workers._pass(KEY)
    assert stalled(api.statuses[-1])["status"] == "False"


async def test_a_defect_between_good_passes_is_only_logged(
    monkeypatch: pytest.MonkeyPatch, api: FailingApi
) -> None:
    made_workers = made(api)
    for _ in range(3):
        failing(monkeypatch, KeyError("x"))
        await made_workers._pass(KEY)
        gathers(monkeypatch, made_workers.ctx, changing())
        await made_workers._pass(KEY)
    assert api.statuses
    assert "InternalError" not in str(api.statuses)


@pytest.mark.parametrize(
    "broken", [[{"type": "Ready"}], "theirs"], ids=["an entry", "no list at all"]
)
async def test_all_but_the_conditions_stays(
    monkeypatch: pytest.MonkeyPatch, api: FailingApi, broken: Any
) -> None:
    failing(monkeypatch, TypeError("x"))
    kept = {"desiredReplicas": 3, "memory": {"pilot": {"a": 1}}, "newer": "field"}
    made_workers = made(api, {**kept, "conditions": broken})
    for _ in range(2):
        await made_workers._pass(KEY)
    (written,) = api.statuses
    assert {key: written[key] for key in kept} == kept
    assert stalled(written)["message"].count("TypeError") == 1


async def test_where_the_status_cannot_be_written_it_is_logged_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, api: FailingApi, caplog: pytest.LogCaptureFixture
) -> None:
    failing(monkeypatch, KeyError("x"))
    made_workers = made(api)
    api.failures = {"/status": ConflictError("changed")}
    assert [await made_workers._pass(KEY) for _ in range(3)] == [0.5, 1.0, 2.0]
    assert "the defect is not in its status" in caplog.text
    api.failures = {}
    await made_workers._pass(KEY)
    assert stalled(api.statuses[-1])["reason"] == "InternalError"


async def test_a_process_that_may_not_write_ends(
    monkeypatch: pytest.MonkeyPatch, api: FailingApi
) -> None:
    failing(monkeypatch, KeyError("x"))
    made_workers = made(api)
    api.failures = {"/status": LeaseLostError("lost")}
    await made_workers._pass(KEY)
    with pytest.raises(LeaseLostError):
        await made_workers._pass(KEY)
