"""Sending live values to engines that refuse them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from typing_extensions import override

from paceline_operator.autopilot.vocabulary.fleet import PodTunables, Tunables
from paceline_operator.domain.tunables import Agreed
from paceline_operator.reconcile.engine_admin import RefusedError
from paceline_operator.reconcile.push import push
from tests.operator.reconcile.test_decide import A
from tests.operator.reconcile.test_tick import (
    KEY,
    FailingApi,
    NoMetrics,
    ObedientEngines,
    made_context,
)
from tests.support.fleet import NOW_S

AGREED = Agreed(1, Tunables(max_num_batched_tokens=512, max_num_running_seqs=16))


class Refusing(ObedientEngines):
    """Engines that refuse until told otherwise."""

    refuses = True

    @override
    async def set_tunables(self, ip: str, token: str, body: Mapping[str, Any]) -> PodTunables:
        if self.refuses:
            raise RefusedError("422", 422)
        return await super().set_tunables(ip, token, body)


async def test_an_engine_that_refuses_is_asked_ever_less_often() -> None:
    engines = Refusing()
    ctx = made_context(FailingApi(), engines, NoMetrics())
    session = ctx.session(KEY)
    found = []
    for _ in range(8):
        assert await push(ctx, session, AGREED, (A,), NOW_S) == 0
        found.append(session.waits[A.incarnation][1] - NOW_S)
    assert found == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    engines.refuses = False
    assert await push(ctx, session, AGREED, (A,), NOW_S) == 1
    assert session.waits == {}


class Ignoring(ObedientEngines):
    """Engines that acknowledge a revision and go on with the old values."""

    @override
    async def set_tunables(self, ip: str, token: str, body: Mapping[str, Any]) -> PodTunables:
        taken = await super().set_tunables(ip, token, body)
        return replace(taken, effective=2 * taken.effective)


async def test_an_engine_that_accepts_and_ignores_is_asked_ever_less_often_and_told() -> None:
    ctx = made_context(FailingApi(), Ignoring(), NoMetrics())
    session, found, told = ctx.session(KEY), [], []
    for _ in range(4):
        assert await push(ctx, session, AGREED, (A,), NOW_S) == 0
        found.append(session.waits[A.incarnation][1] - NOW_S)
        told.append(session.deaf((A,)))
    assert found == [1.0, 2.0, 4.0, 8.0]
    assert told == [(), (), (A.name,), (A.name,)]
