"""What one pass decides, from gathered data to a plan, without any cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline_operator.api.choice import RolloutStrategy
from paceline_operator.api.status import BudgetStatus, InferenceServiceStatus
from paceline_operator.autopilot.vocabulary.fleet import LOST_AFTER_S, DataClass, PodTunables
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.domain import tunables
from paceline_operator.domain.desired import startup_hash
from paceline_operator.domain.names import ANNOTATION_TEMPLATE, selector
from paceline_operator.domain.ownership import Write
from paceline_operator.domain.pinned import Pinned
from paceline_operator.domain.pods import Problem
from paceline_operator.domain.scale_in import DrainState, Moves, Waiting
from paceline_operator.domain.tunables import Agreed
from paceline_operator.metrics.scraper import PodReading, Scrape
from paceline_operator.reconcile import knobs
from paceline_operator.reconcile.decide import Plan, decide
from paceline_operator.reconcile.observed import Observed
from tests.support.fleet import NOW_S, PLATFORM, deployment_status, pod, spec

OFF: dict[str, Any] = {"scaling": {"mode": "Off"}, "tuning": {"mode": "Off"}}
REPORT = PodTunables(
    effective=2048, floor=80, ceiling=2048, step=16, running_seqs=64, running_ceiling=64
)
A, B = (pod(name, template_hash="t", ip=f"10.0.0.{n}") for n, name in enumerate("ab", 1))


def deployment(replicas: int, owner: str | None = "paceline", **status: Any) -> dict[str, Any]:
    fields: list[dict[str, Any]] = [
        {"manager": owner, "fieldsV1": {"f:spec": {"f:replicas": {}}}} for _ in range(bool(owner))
    ]
    template = {"metadata": {"annotations": {ANNOTATION_TEMPLATE: "t"}}}
    return {
        "metadata": {"name": "chat", "generation": 1, "managedFields": fields},
        "spec": {"replicas": replicas, "template": template},
        "status": {**deployment_status(replicas, 1), **status},
    }


def seen(replicas: int = 2, **fields: Any) -> Observed:
    """A settled fleet of two whose engines run with what was agreed."""
    written = fields.pop("spec", spec(**OFF, replicas=replicas))
    metadata = {"name": "chat", "namespace": "d", "uid": "u", "generation": 1}
    first = tunables.initial(written)
    given: dict[str, Any] = {
        "service": {"metadata": metadata},
        "now_s": NOW_S,
        "token": "t",
        "spec": written,
        "status": status(first, desired_replicas=2),
        "deployment": deployment(2),
        "pods": (A, B),
        "reports": {A.uid: REPORT, B.uid: REPORT},
        "children": {
            ("ConfigMap", "chat-tunables"): {"data": {"tunables.json": tunables.text(first)}}
        },
    }
    return Observed(**{**given, **fields})


def status(agreed: Agreed, **fields: Any) -> InferenceServiceStatus:
    budget = BudgetStatus(
        revision=agreed.revision,
        desired=agreed.knobs.max_num_batched_tokens,
        running_seqs=agreed.knobs.max_num_running_seqs,
    )
    memory = {knobs.OBJECTIVES: tunables.objectives_digest(agreed.slos)}
    return InferenceServiceStatus(budget=budget, memory=memory, **fields)


def test_a_settled_fleet_is_left_alone() -> None:
    plan = decide(seen(), PLATFORM, is_due=True)
    assert (plan.pushes, plan.announce, plan.adopted) == ((), False, None)
    assert (plan.target, plan.moves.scale, plan.moves.begin) == (2, None, ())


def test_the_first_pass_asks_for_children_only() -> None:
    plan = decide(
        seen(deployment=None, pods=(), reports={}, children={}, status=InferenceServiceStatus()),
        PLATFORM,
        is_due=True,
    )
    assert len(plan.children) == 7
    assert (plan.target, plan.moves.scale) == (2, None)


def test_replicas_nobody_owns_are_claimed() -> None:
    plan = decide(seen(deployment=deployment(2, owner=None)), PLATFORM, is_due=True)
    assert plan.moves.scale == 2


def test_a_foreign_value_is_adopted_for_one_cool_down() -> None:
    plan = decide(seen(deployment=deployment(3, owner="kubectl")), PLATFORM, is_due=False)
    assert plan.adopted == Write("kubectl", NOW_S, 3)
    assert plan.target == 3
    assert plan.memory.scaled_in_at_s == plan.memory.scaled_out_at_s == NOW_S
    assert plan.moves.scale is None


@pytest.mark.parametrize(("age_s", "target"), [(0, 3), (59, 3), (61, 2)])
def test_an_adopted_value_stands_against_user_and_limits_for_one_cool_down(
    age_s: float, target: int
) -> None:
    known = (Write("kubectl", NOW_S - age_s, 3),) if age_s else ()
    observed = seen(
        spec=spec(tuning={"mode": "Off"}, scaling={"mode": "Off"}, replicas=2),
        deployment=deployment(3, owner="kubectl"), writers=known, target=3 if age_s else 2,
    )  # fmt: skip
    plan = decide(observed, PLATFORM, is_due=True)
    assert (plan.target, plan.yielded) == (target, {})
    limited = spec(scaling={"mode": "Auto", "maxReplicas": 2}, replicas=2)
    assert decide(replace(observed, spec=limited), PLATFORM, is_due=True).target == target


def test_a_second_foreign_write_makes_the_knob_yield() -> None:
    before = (Write("kubectl", NOW_S - 60, 3, in_force=False),)
    plan = decide(
        seen(deployment=deployment(5, owner="kubectl"), writers=before), PLATFORM, is_due=True
    )
    assert plan.yielded == {"replicas": "kubectl"}
    assert (plan.target, plan.moves.scale, plan.moves.begin) == (5, None, ())


def test_the_live_knobs_go_on_while_replicas_have_yielded() -> None:
    other = spec(**OFF, replicas=2, slos=[{"name": "ttft", "metric": "TTFT", "targetMs": 1}])
    stored = status(tunables.initial(spec(**OFF)), desired_replicas=2)
    observed = seen(spec=other, status=stored, autoscaler="ScaledObject s")
    plan = decide(observed, PLATFORM, is_due=True)
    assert plan.yielded == {"replicas": "ScaledObject s"}
    assert len(plan.pushes) == 2


def test_a_spec_that_cannot_be_served_moves_nothing() -> None:
    refused = spec(**OFF, engine={"device": {"type": "CPU"}})
    plan = decide(seen(spec=refused), PLATFORM, is_due=True)
    assert plan.refused is not None
    assert plan.refused.reason == "UnsupportedModel"
    assert (plan.children, plan.pushes, plan.moves.begin) == ((), (), ())
    assert plan.template_hash == "t"


@pytest.mark.behaviour(
    "a spec that is refused takes no replica away: one that is being drained goes on serving",
    report="a pod that was drained when a spec was refused stayed out of service for hours",
)
@pytest.mark.parametrize(
    "fields",
    [
        {"spec": spec(**OFF, engine={"device": {"type": "CPU"}})},
        {"spec": None, "refused": Problem("InvalidSpec", "spec.x: no")},
    ],
    ids=["it cannot be served", "it cannot be read"],
)
def test_a_drain_is_undone_while_the_spec_is_refused(fields: dict[str, Any]) -> None:
    marked = replace(B, draining_since_s=NOW_S - 5)
    plan = decide(replace(seen(pods=(A, marked)), **fields), PLATFORM, is_due=True)
    assert plan.refused is not None
    assert plan.moves == Moves(undo=(marked,))


def test_no_move_is_claimed_for_a_spec_that_cannot_be_served() -> None:
    refused = spec(**OFF, engine={"device": {"type": "CPU"}}, replicas=4)
    plan = decide(seen(spec=refused), PLATFORM, is_due=True)
    assert (plan.target, plan.memory) == (2, Memory())
    assert plan.tick is not None
    assert (plan.tick.decisions, plan.tick.actions) == ((), ())


def test_fewer_replicas_wanted_begin_with_a_drain() -> None:
    plan = decide(seen(replicas=1), PLATFORM, is_due=True)
    assert plan.target == 1
    assert len(plan.moves.begin) == 1
    assert plan.moves.waiting is Waiting.DRAINING


@pytest.mark.parametrize(
    ("data", "ready_for_s", "victim"),
    [
        (DataClass.ABSENT, LOST_AFTER_S + 1, "a"),
        (DataClass.ABSENT, LOST_AFTER_S - 1, "b"),
        (DataClass.STALE, LOST_AFTER_S + 1, "b"),
    ],
    ids=["lost", "young", "stale"],
)
def test_a_pod_that_nobody_reads_leaves_first(
    data: DataClass, ready_for_s: float, victim: str
) -> None:
    """The other one is idle; of a pod without metrics nobody knows what it serves."""
    pods = tuple(replace(each, ready_since_s=NOW_S - ready_for_s) for each in (A, B))
    readings = {A.uid: PodReading(data=data), B.uid: PodReading(data=DataClass.FRESH)}
    scrape = Scrape(pods=readings, slices=())
    plan = decide(seen(replicas=1, pods=pods, scrape=scrape), PLATFORM, is_due=True)
    assert [each.name for each in plan.moves.begin] == [victim]


def test_a_rollout_holds_a_scale_in() -> None:
    rolling = deployment(2, updatedReplicas=1)
    plan = decide(seen(replicas=1, deployment=rolling), PLATFORM, is_due=True)
    assert plan.moves.waiting is Waiting.ROLLOUT


def test_a_blocked_surge_becomes_replace() -> None:
    blocked = replace(A, ready=False, problem=Problem("Unschedulable", "no room"))
    plan = decide(
        seen(pods=(blocked, B), deployment=deployment(2, updatedReplicas=1)), PLATFORM, is_due=True
    )
    engines = next(c for c in plan.children if c["metadata"]["name"] == "chat"
                   and c["kind"] == "Deployment")  # fmt: skip
    assert engines["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == 0


@pytest.mark.parametrize(
    ("decided", "wanted", "owner", "marked", "target"),
    [
        (4, 2, "paceline", False, 4),
        (None, 2, "paceline", False, 3),
        (None, 2, "paceline", True, 2),
        (None, 2, None, False, 2),
        (None, None, None, False, 5),
        (4, 2, "kubectl", False, 3),
    ],
    ids=[
        "this process decided", "status is older than the scale", "a scale-in was under way",
        "the scale is still the default", "nothing was ever decided", "someone else wrote",
    ],
)  # fmt: skip
def test_replicas_wanted_after_a_restart(
    decided: int | None, wanted: int | None, owner: str | None, marked: bool, target: int
) -> None:
    pods = (A, replace(B, draining_since_s=NOW_S - 1) if marked else B)
    written = spec(**OFF, replicas=5)
    observed = seen(
        spec=written, pods=pods, deployment=deployment(3, owner=owner), target=decided,
        status=status(tunables.initial(written), desired_replicas=wanted),
    )  # fmt: skip
    assert decide(observed, PLATFORM, is_due=False).target == target


# Live knobs


def test_a_pod_without_room_limits_scaling_and_names_the_scheduler() -> None:
    said = "0/1 nodes are available: 1 Insufficient cpu."
    new = pod("c", ready=False, template_hash="t", created_s=NOW_S - 5,
              problem=Problem("Unschedulable", said))  # fmt: skip
    wanted = spec(slos=[{"name": "ttft", "metric": "TTFT", "targetMs": 500}],
                  scaling={"mode": "Auto", "maxReplicas": 3})  # fmt: skip
    plan = decide(seen(spec=wanted, pods=(A, B, new)), PLATFORM, is_due=True)
    assert plan.tick is not None
    limit = plan.tick.scaling_limit
    assert limit is not None
    assert (limit.reason.value, said in limit.message) == ("Unschedulable", True)


def engines(plan: Plan) -> dict[str, Any]:
    """The engines' Deployment as the plan wants it."""
    found: dict[str, Any] = next(
        dict(c)
        for c in plan.children
        if (c["kind"], c["metadata"]["name"]) == ("Deployment", "chat")
    )
    return found


def test_nothing_on_a_deployment_becomes_what_is_wanted() -> None:
    clean = decide(seen(), PLATFORM, is_due=False)
    live = deployment(2)
    live["metadata"]["annotations"] = {
        "paceline.dev/engine-image": "evil:1",
        "paceline.dev/startup-hash": startup_hash(spec(**OFF)),
    }
    rolling = {"maxSurge": 0, "maxUnavailable": 2}
    live["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
    live["spec"]["template"]["spec"] = {"containers": [{"name": "engine", "image": "evil:1"}]}
    found = decide(seen(deployment=live), PLATFORM, is_due=False)
    assert (found.children, found.pinned) == (clean.children, clean.pinned)


def test_what_is_remembered_outlives_a_new_default() -> None:
    first = decide(seen(), PLATFORM, is_due=False)
    assert first.pinned is not None
    again = seen(pinned=first.pinned)
    upgraded = replace(PLATFORM, engine_image="engine:2")
    assert engines(decide(again, upgraded, is_due=False)) == engines(first)
    assert engines(decide(seen(), upgraded, is_due=False)) != engines(first)


def test_a_resolved_replace_stays() -> None:
    found = decide(seen(pinned=Pinned(strategy=RolloutStrategy.REPLACE)), PLATFORM, is_due=False)
    rolling = engines(found)["spec"]["strategy"]["rollingUpdate"]
    assert rolling == {"maxSurge": 0, "maxUnavailable": 1}


@pytest.mark.parametrize(
    ("mode", "found", "replicas"),
    [
        ("Service", {"replicas": 2}, 0),
        ("Service", None, "none"),
        ("Proxy", None, 1),
        ("Proxy", {"replicas": 0}, 1),
        ("Proxy", {"replicas": 1}, None),
        ("Proxy", {"replicas": 2}, None),
    ],
    ids=["not wanted", "none there", "missing", "scaled to 0", "theirs", "scaled to 2"],
)
def test_the_replicas_of_the_proxy(
    mode: str, found: dict[str, Any] | None, replicas: int | str | None
) -> None:
    wanted = spec(**OFF, replicas=2, routing={"mode": mode})
    proxy = None if found is None else {"metadata": {"name": "chat-proxy"}, "spec": found}
    children = {} if proxy is None else {("Deployment", "chat-proxy"): proxy}
    plan = decide(seen(spec=wanted, children=children, proxy=proxy), PLATFORM, is_due=False)
    made = {(c["kind"], c["metadata"]["name"]): c for c in plan.children}
    if replicas == "none":
        assert ("Deployment", "chat-proxy") not in made
        return
    assert made["Deployment", "chat-proxy"]["spec"].get("replicas") == replicas


@pytest.mark.parametrize(
    ("component", "ready", "leads_to"),
    [("engine", 0, "engine"), ("engine", 1, "proxy"), ("proxy", 0, "proxy"), (None, 0, "proxy")],
    ids=["proxy awaited", "proxy serves", "proxy lost", "no service yet"],
)
def test_where_the_service_leads(component: str | None, ready: int, leads_to: str) -> None:
    live = {} if component is None else {"spec": {"selector": selector("chat", component)}}
    children = {("Service", "chat"): live} if live else {}
    proxy = {"metadata": {}, "spec": {}, "status": {"readyReplicas": ready}}
    plan = decide(seen(children=children, proxy=proxy), PLATFORM, is_due=False)
    service = next(c for c in plan.children if c["metadata"]["name"] == "chat")
    assert service["spec"]["selector"] == selector("chat", leads_to)


STRAY = replace(B, ready=False)
DRAINED = DrainState(refusing=True, announced=False, empty=True)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"autoscaler": "HorizontalPodAutoscaler x"},
        {"spec": None, "refused": Problem("InvalidSpec", "spec.x: no")},
        {"spec": spec(**OFF, model={"uri": "hf://org/model"},
                      engine={"device": {"type": "CPU"}})},
    ],
    ids=["settled", "replicas left to another", "unreadable", "not to be served"],
)  # fmt: skip
def test_what_somebody_else_drains_is_taken_back_whatever_else_holds(
    fields: dict[str, Any],
) -> None:
    given = {"pods": (A, STRAY), "drains": {B.uid: DRAINED}, **fields}
    written = given.pop("spec", spec(**OFF, replicas=2))
    observed = replace(seen(**given), spec=written)
    assert decide(observed, PLATFORM, is_due=False).strays == (STRAY,)


def test_the_autopilot_knows_which_pods_crash_again_and_again() -> None:
    plan = decide(seen(pods=(A, replace(B, looping=True))), PLATFORM, is_due=True)
    assert plan.asked is not None
    assert [each.looping for each in plan.asked.fleet.pods] == [False, True]
