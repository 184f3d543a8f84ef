"""Rounds of measuring that hang hold no worker."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

import pytest

from paceline_operator.kube.resource import INFERENCE_SERVICE, POD
from paceline_operator.metrics import Target
from paceline_operator.metrics.errors import ScrapeError
from paceline_operator.metrics.source import Answers
from paceline_operator.reconcile import measuring, workers
from paceline_operator.reconcile.context import Context
from paceline_operator.reconcile.gather import gather
from paceline_operator.reconcile.queue import WorkQueue
from paceline_operator.reconcile.tick import tick
from tests.operator.reconcile.test_gather import Strangers
from tests.operator.reconcile.test_tick import (
    KEY,
    FailingApi,
    NoMetrics,
    ObedientEngines,
    made_context,
)
from tests.support.fleet import NOW_S, pod_object


class Engines(ObedientEngines):
    """Engines that take values and report none."""

    tunables = Strangers.tunables


class Hanging:
    """A source that answers once it is let go."""

    interval_s = 5.0

    def __init__(self) -> None:
        self.going = asyncio.Event()
        self.said = "no answer in 60 s"
        self.rounds = 0
        self.awaited = 0
        self.reached = asyncio.Event()

    async def read(self, targets: Sequence[Target], now_s: float) -> Answers:
        self.rounds += 1
        if self.rounds == self.awaited:
            self.reached.set()
        await self.going.wait()
        return {target.uid: ScrapeError(self.said) for target in targets}


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Hanging:
    monkeypatch.setattr(measuring, "GRACE_S", 0.05)
    return Hanging()


@pytest.fixture
def ctx(source: Hanging) -> Context:
    made = made_context(FailingApi(), Engines(), NoMetrics())
    made.source = source
    metadata: dict[str, Any] = {"name": "chat", "namespace": "d", "uid": "u", "generation": 1,
                                "resourceVersion": "5"}  # fmt: skip
    made.store.put(INFERENCE_SERVICE, {"metadata": metadata, "spec": {}})
    found = pod_object("chat", "chat-a", ip="10.0.0.1")
    found["metadata"] |= {"namespace": "d", "uid": "p", "resourceVersion": "6"}
    found["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    made.store.put(POD, found)
    session = made.session(KEY)
    session.token, session.resynced_at_s = "t", NOW_S
    return made


async def test_a_source_that_hangs_holds_a_pass_for_a_moment(ctx: Context, source: Hanging) -> None:
    began_s = time.monotonic()
    async with asyncio.timeout(5.0):
        for _ in range(3):
            seen = await gather(ctx, KEY)
            assert seen is not None
            assert not seen.is_measured
    assert time.monotonic() - began_s < 2.0
    assert source.rounds == 1  # one at a time
    assert len(ctx.queue) == 0
    source.going.set()
    assert await asyncio.wait_for(ctx.queue.get(), 1.0) == KEY
    seen = await gather(ctx, KEY)
    assert seen is not None
    assert seen.is_measured
    assert ctx.session(KEY).scraped_at_s == NOW_S


async def test_an_object_that_is_gone_is_measured_no_more(ctx: Context) -> None:
    await gather(ctx, KEY)
    running = ctx.session(KEY).round
    ctx.forget(KEY)
    await asyncio.sleep(0)
    assert running is not None
    assert running.cancelled()
    assert len(ctx.queue) == 0


async def test_the_cause_is_told_in_the_log_once(
    ctx: Context, source: Hanging, caplog: pytest.LogCaptureFixture
) -> None:
    source.going.set()
    session = ctx.session(KEY)
    with caplog.at_level(logging.INFO, "paceline_operator.reconcile.unmeasured"):
        for said in ("no answer in 60 s", "no answer in 60 s", "answered 401"):
            source.said = said
            session.scraped_at_s = float("-inf")
            await tick(ctx, KEY)
    told = [(r.levelname, r.getMessage()) for r in caplog.records]
    assert told == [
        ("WARNING", "d/chat: 1 of 1 pods are not measured: no answer in 60 s"),
        ("WARNING", "d/chat: 1 of 1 pods are not measured: answered 401"),
    ]


async def test_the_cause_stands_in_the_condition(ctx: Context, source: Hanging) -> None:
    source.going.set()
    await tick(ctx, KEY)
    status = (ctx.store.get(INFERENCE_SERVICE, *KEY) or {})["status"]
    found = next(each for each in status["conditions"] if each["type"] == "MetricsFresh")
    assert found["status"] == "False"
    assert found["message"].endswith("1 of 1 pods are not measured: no answer in 60 s")


async def test_workers_go_on_with_all_objects_while_the_source_hangs(
    ctx: Context, source: Hanging
) -> None:
    """What hangs would else hold every worker, and in the end the process would be restarted."""
    queue = ctx.queue = WorkQueue(time.monotonic)
    known = ctx.store.get(INFERENCE_SERVICE, *KEY) or {}
    source.awaited = 8
    for name in (f"chat-{number}" for number in range(source.awaited)):
        ctx.store.put(INFERENCE_SERVICE, {**known, "metadata": {**known["metadata"], "name": name}})
        found = pod_object(name, f"{name}-a", ip="10.0.0.1")
        found["metadata"] |= {"namespace": "d", "uid": name, "resourceVersion": "6"}
        ctx.store.put(POD, found)
        session = ctx.session(("d", name))
        session.token, session.resynced_at_s = "t", NOW_S
        queue.add(("d", name))
    working = asyncio.create_task(workers.Workers(ctx, 2).run())
    try:
        async with asyncio.timeout(10.0):
            await source.reached.wait()
        assert queue.stuck_s() < 2.0
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


@pytest.mark.parametrize(
    ("measured_ago_s", "due_s"),
    [
        pytest.param(0.0, 5.0, id="just measured"),
        pytest.param(3.0, 2.0, id="an event, or an interval that was shorter then"),
        pytest.param(7.0, 0.0, id="a pass that took long"),
        pytest.param(float("inf"), 5.0, id="never measured"),
        pytest.param(-60.0, 5.0, id="a clock that was ahead"),
    ],
)
def test_no_pass_leaves_a_round_out(ctx: Context, measured_ago_s: float, due_s: float) -> None:
    session = ctx.session(KEY)
    session.scraped_at_s = NOW_S - measured_ago_s
    assert measuring.due_in(ctx, session, NOW_S) == due_s


async def test_the_end_of_a_round_that_is_under_way_is_waited_for(ctx: Context) -> None:
    session = ctx.session(KEY)
    session.scraped_at_s = NOW_S - 7.0
    await gather(ctx, KEY)
    assert session.round is not None
    assert measuring.due_in(ctx, session, NOW_S) == 5.0
    ctx.forget(KEY)


@pytest.mark.behaviour(
    "a fleet with a pod that hangs holds a worker for a moment in each round, not for a second",
    report="with 8 workers 120 such fleets made all passes of all fleets late",
)
async def test_many_fleets_that_hang_do_not_hold_all_workers(
    ctx: Context, source: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "GRACE_S", 0.3)
    session = ctx.session(KEY)
    for slow, most_s in ((False, 1.0), (True, 0.25)):
        assert session.is_slow is slow
        began_s = time.monotonic()
        await gather(ctx, KEY)
        assert time.monotonic() - began_s < most_s
        await asyncio.sleep(0.35)
        source.going.set()
        await asyncio.wait_for(ctx.queue.get(), 1.0)
        ctx.queue.done(KEY)
        await gather(ctx, KEY)
        source.going.clear()
        session.scraped_at_s = NOW_S - 5.0
    source.going.set()
    await gather(ctx, KEY)  # one that answers in time is waited for again
    assert not session.is_slow
