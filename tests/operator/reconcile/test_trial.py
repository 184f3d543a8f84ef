"""One pod with another budget: its own revision, its own body, and a sound end in every case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from paceline_operator.autopilot.vocabulary.fleet import PodTunables, Trial
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.domain import tunables
from paceline_operator.domain.tunables import Agreed
from paceline_operator.reconcile import knobs
from paceline_operator.reconcile.observed import Observed
from paceline_operator.reconcile.push import push
from tests.operator.reconcile.test_decide import REPORT, A, B, seen, status
from tests.operator.reconcile.test_knobs import agreed_of
from tests.operator.reconcile.test_tick import (
    KEY,
    FailingApi,
    NoMetrics,
    ObedientEngines,
    made_context,
)
from tests.support.fleet import NOW_S, spec

TRIAL = Trial(uid=B.uid, budget=1024)
SPEC = spec(replicas=2, engine={"device": {"type": "Simulated"}, "batchTokens": {"initial": 512}})
KNOBS = tunables.initial(SPEC).knobs
BEGUN = Agreed(5, KNOBS, (), TRIAL)


def report(budget: int, revision: int = 5) -> PodTunables:
    return replace(REPORT, effective=budget, requested=budget, revision=revision)


def fleet(agreed: Agreed, first: int, second: int, **fields: Any) -> Observed:
    """Two pods whose engines were asked for these budgets under the agreed revision."""
    stored = status(agreed, desired_replicas=2)
    kept = {**(stored.memory or {}), knobs.TRIAL: knobs.dump_trial(agreed.trial)}
    reports = {A.uid: report(first, agreed.revision), B.uid: report(second, agreed.revision)}
    found: dict[str, Any] = {
        "spec": SPEC,
        "status": stored.model_copy(update={"memory": kept}),
        "reports": reports,
        "memory": Memory(trial=agreed.trial),
        **fields,
    }
    return seen(**found)


BUDGET = KNOBS.max_num_batched_tokens


def test_a_trial_that_begins_is_a_revision_of_its_own() -> None:
    before = fleet(Agreed(4, KNOBS), BUDGET, BUDGET, memory=Memory(trial=TRIAL))
    agreed, announce = agreed_of(before)
    assert (agreed, announce) == (BEGUN, True)
    assert knobs.behind(before, agreed) == (A, B)


def test_one_that_goes_on_changes_nothing_also_for_the_next_process() -> None:
    assert agreed_of(fleet(BEGUN, BUDGET, 1024)) == (BEGUN, False)


@pytest.mark.parametrize(
    "fields",
    [
        {"memory": Memory()},
        {"pods": (A,)},
        {"pods": (A, replace(B, deleting=True))},
        {"spec": spec(replicas=2, tuning={"mode": "Recommend"}, engine={
            "device": {"type": "Simulated"}, "batchTokens": {"initial": 512}})},
        {"spec": spec(replicas=2, engine={
            "device": {"type": "Simulated"}, "batchTokens": {"initial": 512, "max": 768}})},
    ],
    ids=["judged", "its pod is gone", "its pod goes", "no tuning", "beyond a new ceiling"],
)  # fmt: skip
def test_its_end_is_another_revision_with_the_old_value_for_all(fields: dict[str, Any]) -> None:
    agreed, announce = agreed_of(fleet(BEGUN, BUDGET, 1024, **fields))
    assert (agreed.revision, agreed.trial, announce) == (6, None, True)
    assert agreed.of_pod(B.uid) == agreed
    assert agreed.knobs.max_num_batched_tokens == BUDGET


@pytest.mark.parametrize("tried", [256, 1024])
def test_the_budget_that_the_status_shows_is_that_of_the_others(tried: int) -> None:
    agreed = replace(BEGUN, trial=Trial(uid=B.uid, budget=tried))
    reports = {
        A.uid: replace(report(BUDGET), running_seqs=KNOBS.max_num_running_seqs),
        B.uid: replace(report(tried), running_seqs=KNOBS.max_num_running_seqs),
    }
    shown = knobs.budget_status(fleet(agreed, BUDGET, tried, reports=reports), agreed)
    assert (shown.effective, shown.acknowledged, shown.total) == (BUDGET, 2, 2)


def test_a_trial_that_nobody_remembers_is_taken_back() -> None:
    """The status was lost in the middle of one: the engine says what it was asked for."""
    lost = fleet(replace(BEGUN, trial=None), BUDGET, 1024, memory=Memory())
    agreed, announce = agreed_of(lost)
    assert (agreed.revision, agreed.trial, announce) == (6, None, True)
    clamped = {uid: replace(each, effective=400) for uid, each in lost.reports.items()}
    sound = replace(lost, reports={**clamped, B.uid: replace(report(BUDGET), effective=400)})
    assert agreed_of(sound)[1] is False


def test_a_container_that_starts_anew_in_its_pod_makes_no_revision_by_itself() -> None:
    """It begins with the agreed values; the autopilot sees that, and ends the trial."""
    assert agreed_of(fleet(BEGUN, BUDGET, BUDGET)) == (BEGUN, False)


def test_a_container_that_starts_anew_is_sent_nothing_that_it_would_refuse() -> None:
    """Under the revision of the trial it has the values of all; the next one reaches it at once."""
    anew = fleet(BEGUN, BUDGET, BUDGET)
    assert knobs.behind(anew, BEGUN) == ()
    # One that has not taken the trial yet, or ignores it, is sent it.
    assert knobs.behind(fleet(BEGUN, BUDGET, 768), BEGUN) == (B,)
    ended = replace(anew, memory=Memory())
    agreed, announce = agreed_of(ended)
    assert (agreed.revision, announce) == (6, True)
    assert knobs.behind(ended, agreed) == (A, B)


def test_the_config_map_keeps_what_all_have_agreed_on() -> None:
    stored = tunables.parse(tunables.text(BEGUN))
    assert stored == replace(BEGUN, trial=None)


class Listening(ObedientEngines):
    """Engines that remember what they were told."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: dict[str, Mapping[str, Any]] = {}

    @override
    async def set_tunables(self, ip: str, token: str, body: Mapping[str, Any]) -> PodTunables:
        self.bodies[ip] = body
        return await super().set_tunables(ip, token, body)


async def test_the_pod_that_tries_gets_its_own_budget_under_the_same_revision() -> None:
    engines = Listening()
    ctx = made_context(FailingApi(), engines, NoMetrics())
    assert await push(ctx, ctx.session(KEY), BEGUN, (A, B), NOW_S) == 2
    told = {ip: (body["revision"], body["maxNumBatchedTokens"]) for ip, body in
            engines.bodies.items()}  # fmt: skip
    assert told == {A.ip: (5, BUDGET), B.ip: (5, 1024)}
