"""The limit on changes over all objects, as passes keep it; and calendars nobody understands."""

from __future__ import annotations

from typing import Any

import pytest

from paceline_operator.api.choice import Mode
from paceline_operator.autopilot import pilot
from paceline_operator.autopilot.vocabulary.decision import (
    Action,
    Decision,
    Knob,
    Reason,
    SetReplicas,
    Tick,
)
from paceline_operator.autopilot.vocabulary.fleet import Allowance, FleetObservation
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.policy import Policy
from paceline_operator.domain.blast_radius import KEY as CHANGES
from paceline_operator.domain.blast_radius import Change, Limits
from paceline_operator.kube.errors import UnavailableError
from paceline_operator.kube.resource import INFERENCE_SERVICE, POD
from paceline_operator.reconcile import tick as passes
from paceline_operator.reconcile.context import Context
from paceline_operator.reconcile.gather import gather
from tests.operator.reconcile.test_gather import Strangers
from tests.operator.reconcile.test_tick import (
    KEY,
    FailingApi,
    NoMetrics,
    ObedientEngines,
    changing,
    gathers,
    made_context,
)
from tests.support.fleet import NOW_S, pod_object


@pytest.fixture
def api() -> FailingApi:
    return FailingApi()


class Engines(ObedientEngines):
    """Engines that take values and report none."""

    tunables = Strangers.tunables


@pytest.fixture
def ctx(api: FailingApi) -> Context:
    made = made_context(api, Engines(), NoMetrics())
    made.most_changes = Limits(services=4, replicas=6)
    return made


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Allowance]:
    """What each question to the autopilot allowed; it orders three more whatever that is."""
    found: list[Allowance] = []

    def step(_: Policy, fleet: FleetObservation, *__: Any) -> Tick:
        found.append(fleet.allowance)
        decision = Decision(
            time_s=NOW_S, knob=Knob.REPLICAS, action=Action.SCALE_OUT, before=2, after=5,
            reason=Reason.DEMAND_FORECAST, message="Replicas 2 -> 5.", applied=True,
        )  # fmt: skip
        action = SetReplicas(replicas=5, reason=Reason.DEMAND_FORECAST)
        return Tick(decisions=(decision,), actions=(action,), memory=Memory())

    monkeypatch.setattr(pilot, "step", step)
    return found


def stored(ctx: Context, written: dict[str, Any], status: dict[str, Any] | None = None) -> None:
    metadata: dict[str, Any] = {"name": "chat", "namespace": "d", "uid": "u", "generation": 1,
                                "resourceVersion": "5"}  # fmt: skip
    ctx.store.put(INFERENCE_SERVICE, {"metadata": metadata, "spec": written,
                                      "status": status or {}})  # fmt: skip
    found = pod_object("chat", "chat-a", ip="10.0.0.1")
    found["metadata"] |= {"namespace": "d", "uid": "p", "resourceVersion": "6"}
    found["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    ctx.store.put(POD, found)
    session = ctx.session(KEY)
    session.token, session.resynced_at_s = "t", NOW_S


async def test_what_a_pass_orders_is_counted_for_all(
    ctx: Context, api: FailingApi, asked: list[Allowance], monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx.changes = (Change(time_s=NOW_S - 30, service=("d", "other"), replicas=2),)
    gathers(monkeypatch, ctx, changing(is_measured=True))
    await passes.tick(ctx, KEY)
    assert asked == [Allowance(knobs=True, out=4, inward=1, until_s=NOW_S + 30)]
    assert ctx.changes[1:] == (Change(time_s=NOW_S, service=KEY, replicas=3),)
    assert api.statuses[-1]["memory"][CHANGES] == [[NOW_S, 3]]


async def test_a_pass_of_which_nothing_comes_is_not_counted(
    ctx: Context, api: FailingApi, asked: list[Allowance], monkeypatch: pytest.MonkeyPatch
) -> None:
    gathers(monkeypatch, ctx, changing(is_measured=True))
    api.failures["/status"] = UnavailableError("away")
    with pytest.raises(UnavailableError):
        await passes.tick(ctx, KEY)
    assert asked
    assert ctx.changes == ()


async def test_a_defect_is_not_counted_again_with_each_try(
    ctx: Context, asked: list[Allowance], monkeypatch: pytest.MonkeyPatch
) -> None:
    gathers(monkeypatch, ctx, changing(is_measured=True))

    async def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(passes, "_bring_about", fail)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            await passes.tick(ctx, KEY)
    assert [each.out for each in asked] == [6, 6, 6]
    assert not ctx.changes


async def test_a_move_that_was_announced_stays_counted(
    ctx: Context, api: FailingApi, asked: list[Allowance], monkeypatch: pytest.MonkeyPatch
) -> None:
    gathers(monkeypatch, ctx, changing(is_measured=True))
    api.failures["/scale"] = UnavailableError("away")
    with pytest.raises(UnavailableError):
        await passes.tick(ctx, KEY)
    assert asked
    assert [each.replicas for each in ctx.changes] == [3]


async def test_a_new_process_goes_on_counting(ctx: Context) -> None:
    memory = {CHANGES: [[NOW_S - 20, 5]]}
    stored(ctx, {}, {"memory": memory, "observedGeneration": 1})
    await gather(ctx, KEY)
    await gather(ctx, KEY)
    assert ctx.changes == (Change(time_s=NOW_S - 20, service=KEY, replicas=5),)


async def test_a_calendar_nobody_understands_is_refused_and_said(ctx: Context) -> None:
    window = {"name": "w", "start": "0 8 * * 8", "durationSeconds": 60}
    stored(ctx, {"freezeWindows": [window]})
    found = await gather(ctx, KEY)
    assert found is not None
    assert found.spec is None
    assert found.refused is not None
    assert found.refused.reason == "InvalidCalendar"
    assert "spec.freezeWindows[w]: start '0 8 * * 8'" in found.refused.message


async def test_modes_that_the_installation_lowers_are_known(ctx: Context) -> None:
    ctx.max_mode = Mode.RECOMMEND
    stored(ctx, {"scaling": {"maxReplicas": 3}})
    found = await gather(ctx, KEY)
    assert found is not None
    assert found.lowered == {Knob.BUDGET, Knob.REPLICAS}
