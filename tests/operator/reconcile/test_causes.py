"""Why a pod gets no containers, from its events: asked seldom, and never needed."""

from __future__ import annotations

from typing import Any

import pytest
from typing_extensions import override

from paceline_operator.domain.pods import PodView, Problem
from paceline_operator.kube.client import Object
from paceline_operator.kube.errors import ForbiddenError, KubeError
from paceline_operator.reconcile.causes import ASK_EVERY_S, explained
from paceline_operator.reconcile.context import Context
from tests.operator.reconcile.test_tick import (
    KEY,
    FailingApi,
    NoMetrics,
    ObedientEngines,
    made_context,
)
from tests.support.fleet import NOW_S, moment, pod


class Told(FailingApi):
    """An API server with events, or one that keeps them to itself."""

    def __init__(self, *items: dict[str, Any], error: KubeError | None = None) -> None:
        super().__init__()
        self.items, self.error = items, error
        self.asked: list[dict[str, str]] = []

    @override
    async def get(self, path: str, **query: str) -> Object:
        assert path == "/apis/events.k8s.io/v1/namespaces/d/events"
        self.asked.append(query)
        if self.error is not None:
            raise self.error
        return {"items": list(self.items)}


def event(reason: str, kind: str, note: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "e"}, "reason": reason, "type": kind, "note": note,
        "deprecatedLastTimestamp": moment(NOW_S),
    }  # fmt: skip


FAILED = event("FailedMount", "Warning", "hostPath type check failed: /m is not a file")
PULLING = event("Pulling", "Normal", "Pulling image engine:1")


def made(api: Told) -> Context:
    return made_context(api, ObedientEngines(), NoMetrics())


def creating(name: str, seconds: float) -> PodView:
    return pod(name, ready=False, creating_since_s=NOW_S - seconds)


async def told(api: Told, *fleet: PodView, ctx: Context | None = None) -> tuple[PodView, ...]:
    ctx = ctx or made(api)
    return await explained(ctx, ctx.session(KEY), "d", fleet, NOW_S)


async def test_a_volume_that_cannot_be_mounted_is_a_problem_with_its_cause() -> None:
    api = Told(FAILED)
    (found,) = await told(api, creating("a", 21))
    assert found.problem == Problem("FailedMount", "hostPath type check failed: /m is not a file")
    assert api.asked == [{"fieldSelector": "regarding.uid=uid-a"}]


async def test_what_merely_takes_its_time_is_said_and_is_no_problem() -> None:
    (found,) = await told(Told(PULLING), creating("a", 31))
    assert found.problem is None
    assert found.hint == "a has no container yet: Pulling image engine:1"


@pytest.mark.parametrize("error", [None, ForbiddenError("may not list events")])
async def test_without_events_it_says_where_to_look(error: KubeError | None) -> None:
    early, late = await told(Told(error=error), creating("a", 25), creating("b", 31))
    assert (early.problem, early.hint, late.problem) == (None, "", None)
    assert "more than 30 s; `kubectl describe pod b -n d`" in late.hint


async def test_events_are_asked_for_seldom_and_for_few() -> None:
    api = Told(FAILED)
    ctx = made(api)
    fleet = tuple(creating(name, 60) for name in "abcde")
    await told(api, *fleet, ctx=ctx)
    assert len(api.asked) == 3
    await told(api, *fleet, ctx=ctx)
    assert len(api.asked) == 5
    await told(api, *fleet, ctx=ctx)
    assert len(api.asked) == 5
    await explained(ctx, ctx.session(KEY), "d", fleet, NOW_S + ASK_EVERY_S)
    assert len(api.asked) == 8


async def test_nobody_is_asked_about_pods_that_start_as_usual() -> None:
    api = Told(FAILED)
    fleet = (creating("a", 19), pod("b"), pod("c", ready=False))
    assert await told(api, *fleet) == fleet
    assert api.asked == []
