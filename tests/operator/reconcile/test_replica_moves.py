"""What is said of a write to `/scale`, and how drains by strangers are undone."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from paceline_operator.domain.scale_in import Moves
from paceline_operator.kube.client import Object
from paceline_operator.kube.errors import ForbiddenError, UnavailableError
from paceline_operator.kube.resource import POD
from paceline_operator.reconcile.engine_admin import RefusedError, UnreachableError
from paceline_operator.reconcile.replica_moves import carry_out, due_strays, retrieve
from paceline_operator.reconcile.session import dump_strays, load_strays
from tests.operator.reconcile.test_decide import seen
from tests.operator.reconcile.test_tick import (
    KEY,
    FailingApi,
    NoMetrics,
    ObedientEngines,
    made_context,
)
from tests.support.fleet import NOW_S, pod

STRAY = pod("stray", ready=False, ip="10.0.0.9", incarnation="uid-stray/0")


@pytest.mark.parametrize(
    ("replicas", "said"), [(2, []), (3, ["scaled d/chat from 2 to 3"])], ids=["claimed", "scaled"]
)
async def test_only_a_write_that_changes_replicas_is_told_as_a_scaling(
    caplog: pytest.LogCaptureFixture, replicas: int, said: list[str]
) -> None:
    ctx = made_context(FailingApi(), ObedientEngines(), NoMetrics())
    with caplog.at_level(logging.INFO):
        await carry_out(ctx, ctx.session(KEY), seen(), Moves(scale=replicas))
    assert caplog.messages == said
    assert ctx.session(KEY).target == replicas


class DrainedEngines(ObedientEngines):
    """Engines that somebody drains; `status` is how they refuse to be taken back, 0 for not."""

    def __init__(self, status: int = 0) -> None:
        super().__init__()
        self.status = status
        self.undone = 0

    @override
    async def undo_drain(self, ip: str, token: str) -> None:
        self.undone += 1
        if self.status:
            raise RefusedError("refused", self.status)


class TellingApi(FailingApi):
    """An API server that keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told = 0

    @override
    async def write(self, method: str, path: str, body: Any, **query: str) -> Object:
        self.told += "/events" in path
        return await super().write(method, path, body, **query)


@pytest.mark.behaviour(
    "whoever drains an engine again and again is answered and told of once a minute",
    report="against a stranger who drains in a loop the operator undid once a second",
)
async def test_a_stranger_in_a_loop_is_answered_once_a_minute() -> None:
    api, engines = TellingApi(), DrainedEngines()
    ctx = made_context(api, engines, NoMetrics())
    session, undone, told = ctx.session(KEY), [], []
    for second in range(200):
        now = replace(seen(pods=(STRAY,)), now_s=NOW_S + second)
        before = engines.undone, api.told
        await retrieve(ctx, session, now, (STRAY,))
        undone += [second] * (engines.undone - before[0])
        told += [second] * (api.told - before[1])
    assert undone == [0, 1, 61, 121, 181]
    assert told == [0, 61, 121, 181]
    assert session.strayed(NOW_S + 200) == ("stray",)
    # Asked again, it says the same.
    assert session.strayed(NOW_S + 10_000) == ()
    assert session.strayed(NOW_S + 200) == ("stray",)


@pytest.mark.parametrize(("status", "is_left"), [(409, True), (401, False)])
async def test_an_engine_that_refuses_as_it_is_ending_is_left_alone(
    status: int, is_left: bool
) -> None:
    ctx = made_context(FailingApi(), DrainedEngines(status), NoMetrics())
    session = ctx.session(KEY)
    await retrieve(ctx, session, seen(pods=(STRAY,)), (STRAY,))
    assert session.ending == ({STRAY.incarnation} if is_left else set())
    assert session.strayed(NOW_S) == ()
    # Its next process is another one.
    again = replace(STRAY, incarnation="uid-stray/1")
    await retrieve(ctx, session, seen(pods=(again,)), ())
    assert session.ending == set()


async def test_a_mark_on_an_engine_that_is_ending_is_taken_off() -> None:
    api, engines = FailingApi(), DrainedEngines(409)
    ctx = made_context(api, engines, NoMetrics())
    marked = replace(STRAY, draining_since_s=NOW_S - 60)
    await carry_out(ctx, ctx.session(KEY), seen(pods=(marked,)), Moves(undo=(marked,)))
    assert ctx.store.keys(POD) == [("d", "chat")]


class LostEngines(ObedientEngines):
    """Engines whose admin port answers nobody."""

    @override
    async def undo_drain(self, ip: str, token: str) -> None:
        raise UnreachableError("no answer in time")


@pytest.mark.behaviour(
    "a drain on an engine that cannot be reached any more ends, and is told of once a minute",
    report="with a blocked admin port no replica ever left, and each pass wrote an event",
)
@pytest.mark.parametrize(("is_ready", "marks_taken_off"), [(False, 1), (True, 0)])
async def test_a_mark_on_an_engine_that_is_lost_is_taken_off(
    is_ready: bool, marks_taken_off: int
) -> None:
    """One that serves and cannot be told to go on serving keeps its mark: it may be draining."""
    ctx = made_context(FailingApi(), LostEngines(), NoMetrics())
    session = ctx.session(KEY)
    marked = replace(STRAY, ready=is_ready, draining_since_s=NOW_S - 900)
    moves = Moves(undo=(marked,), expired=(marked,))
    await carry_out(ctx, session, seen(pods=(marked,)), moves)
    assert len(ctx.store.keys(POD)) == marks_taken_off
    assert session.retry_drain_at_s == NOW_S + 60


def test_what_is_due_is_looked_at_soon() -> None:
    session = made_context(FailingApi(), DrainedEngines(), NoMetrics()).session(KEY)
    assert due_strays(session, (STRAY,), NOW_S) == (STRAY,)


def test_who_was_drained_survives_the_process() -> None:
    strays = {"u": ("a", NOW_S), "v": ("b", NOW_S - 5)}
    assert load_strays({"strays": dump_strays(strays)}, NOW_S) == strays


@pytest.mark.parametrize("stored", [None, {}, {"strays": 3}, {"strays": [{"uid": "u"}]}, []])
def test_a_memory_of_strays_that_is_not_understood_is_none(stored: Any) -> None:
    assert load_strays(stored, NOW_S) == {}


class SlowEngines(ObedientEngines):
    """Engines that are taken back only once all were asked; `log` tells the order of things."""

    def __init__(self, log: list[str], awaited: int) -> None:
        super().__init__()
        self.log, self._all = log, asyncio.Barrier(awaited)

    @override
    async def undo_drain(self, ip: str, token: str) -> None:
        async with asyncio.timeout(5.0):
            await self._all.wait()
        self.log.append("undone")


class ToldApi(FailingApi):
    """An API server that tells the order of writes to the scale."""

    def __init__(self, log: list[str]) -> None:
        super().__init__()
        self.log = log

    @override
    async def write(self, method: str, path: str, body: Any, **query: str) -> Object:
        if path.endswith("/scale"):
            self.log.append("scaled")
        return await super().write(method, path, body, **query)


@pytest.mark.parametrize(
    ("replicas", "order"),
    [(9, ["scaled", "undone", "undone", "undone"]), (1, ["undone", "undone", "undone", "scaled"])],
    ids=["out", "in"],
)
async def test_load_waits_for_nobody_who_is_taken_back(replicas: int, order: list[str]) -> None:
    """One engine on a lost node takes two seconds to be given up; ten took twenty."""
    log: list[str] = []
    ctx = made_context(ToldApi(log), SlowEngines(log, 3), NoMetrics())
    pods = tuple(replace(STRAY, name=f"s-{n}", uid=f"u-{n}", incarnation=f"u-{n}/0") for n in "abc")
    moves = Moves(undo=pods, scale=replicas)
    await carry_out(ctx, ctx.session(KEY), seen(pods=pods), moves)
    assert log == order
    assert ctx.session(KEY).target == replicas


async def test_a_scale_that_was_written_is_not_forgotten() -> None:
    """The next pass would take the new pods for ones that nobody wants."""
    api = FailingApi()
    api.failures = {"GET /apis/apps/v1/namespaces/d/deployments/chat": UnavailableError("away")}
    ctx = made_context(api, ObedientEngines(), NoMetrics())
    await carry_out(ctx, ctx.session(KEY), seen(), Moves(scale=3))
    assert "scale" in api.writes
    assert ctx.session(KEY).target == 3


async def test_one_that_cannot_be_marked_keeps_nobody_from_being_ordered() -> None:
    api = FailingApi()
    api.failures = {"pods/stray": ForbiddenError("may not patch pods")}
    ctx = made_context(api, ObedientEngines(), NoMetrics())
    marked = replace(STRAY, draining_since_s=NOW_S - 60)
    with pytest.raises(ForbiddenError):
        await carry_out(ctx, ctx.session(KEY), seen(), Moves(undo=(marked,), scale=3))
    assert "scale" in api.writes
