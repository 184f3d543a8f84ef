"""What a pass keeps and what it says where a write in the middle of it fails."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from kubernetes_asyncio.client import Configuration
from typing_extensions import override

from paceline_operator.api.choice import Mode, RolloutStrategy
from paceline_operator.api.status import InferenceServiceStatus
from paceline_operator.api.v1alpha1 import SloMetric
from paceline_operator.autopilot.vocabulary.decision import Knob, SloMeasurement, Tick
from paceline_operator.autopilot.vocabulary.fleet import DataClass, PodTunables
from paceline_operator.autopilot.vocabulary.memory import Memory, load_memory
from paceline_operator.domain import pinned, tunables
from paceline_operator.domain.arguments import LATEST
from paceline_operator.domain.desired import startup_hash
from paceline_operator.domain.pinned import Pinned, Start
from paceline_operator.domain.pods import PodView, Problem
from paceline_operator.kube.apply import ForeignChildError
from paceline_operator.kube.client import KubeClient, Object
from paceline_operator.kube.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    KubeError,
    UnauthorizedError,
    UnavailableError,
)
from paceline_operator.kube.event import EventRecorder
from paceline_operator.kube.store import Store
from paceline_operator.metrics import DirectSource, HttpFetch, Scrape
from paceline_operator.metrics.scraper import PodReading
from paceline_operator.reconcile import children
from paceline_operator.reconcile import tick as passes
from paceline_operator.reconcile.context import Context
from paceline_operator.reconcile.engine_admin import EngineAdmin
from paceline_operator.reconcile.instruments import Instruments
from paceline_operator.reconcile.observed import Observed
from paceline_operator.reconcile.queue import WorkQueue
from tests.operator.reconcile.test_decide import OFF, REPORT, A, B, seen, status
from tests.operator.reconcile.test_knobs import WITH_SLO
from tests.support.fleet import NOW_S, PLATFORM, spec

KEY = ("d", "chat")


class FailingApi(KubeClient):
    """An API server in memory that fails where it is told to."""

    def __init__(self) -> None:
        super().__init__(Configuration())
        self.failures: dict[str, KubeError] = {}
        self.statuses: list[dict[str, Any]] = []
        self.writes: list[str] = []
        self.reasons: list[str] = []
        self._version = 10

    @override
    async def get(self, path: str, **query: str) -> Object:
        self._fail("GET", path)
        if path.rpartition("/")[0].endswith("namespaces/d"):
            return {"items": []}
        metadata = {"name": "chat", "namespace": "d", "uid": "u", "resourceVersion": "1"}
        return {"metadata": {**metadata, "ownerReferences": [{"uid": "u"}]},
                "spec": {"replicas": 2}}  # fmt: skip

    @override
    async def write(self, method: str, path: str, body: Any, **query: str) -> Object:
        self._fail(method, path)
        self._version += 1
        self.writes.append(path.rpartition("/")[2])
        made = {} if isinstance(body, list) else dict(body)
        if path.endswith("/status"):
            made["status"] = body[1]["value"]
            self.statuses.append(made["status"])
        if path.endswith("/events"):
            self.reasons.append(made["reason"])
        known = {"name": "chat", "namespace": "d", "uid": "u", "generation": 1}
        metadata = {**known, **made.get("metadata", {})}
        return {**made, "metadata": {**metadata, "resourceVersion": str(self._version)}}

    def _fail(self, method: str, path: str) -> None:
        for end, error in self.failures.items():
            if f"{method} {path}".endswith(end):
                raise error


class ObedientEngines(EngineAdmin):
    """Engines that take every revision, and its values where they come with it."""

    def __init__(self) -> None:
        self.taken: list[int] = []

    @override
    async def set_tunables(self, ip: str, token: str, body: Mapping[str, Any]) -> PodTunables:
        self.taken.append(body["revision"])
        return replace(
            REPORT,
            revision=body["revision"],
            effective=body.get("maxNumBatchedTokens", REPORT.effective),
            running_seqs=body.get("maxNumRunningSeqs", REPORT.running_seqs),
        )

    @override
    async def undo_drain(self, ip: str, token: str) -> None:
        """Taken back."""


@pytest.fixture
def api() -> FailingApi:
    return FailingApi()


def made_context(api: FailingApi, engines: EngineAdmin, fetch: HttpFetch) -> Context:
    """A context over these ends."""
    return Context(
        client=api, engines=engines, source=DirectSource(fetch), store=Store(),
        queue=WorkQueue(lambda: NOW_S), events=EventRecorder(api, "o", lambda: NOW_S),
        platform=PLATFORM, max_mode=Mode.AUTO, clock=lambda: NOW_S, instruments=Instruments(),
    )  # fmt: skip


class NoMetrics(HttpFetch):
    """Nothing to scrape."""

    def __init__(self) -> None:
        self.urls: list[str] = []

    @override
    async def __call__(self, url: str) -> str:
        self.urls.append(url)
        return ""


@pytest.fixture
def ctx(api: FailingApi) -> Context:
    return made_context(api, ObedientEngines(), NoMetrics())


def gathers(monkeypatch: pytest.MonkeyPatch, ctx: Context, observed: Observed) -> None:
    """Have the next passes see this, with what the session remembers."""

    async def gather(_: Context, key: tuple[str, str]) -> Observed:
        session = ctx.session(key)
        memory = session.memory or observed.memory
        return replace(observed, memory=memory, target=session.target, writers=session.writers)

    monkeypatch.setattr(passes, "gather", gather)


def changing(**fields: Any) -> Observed:
    """A fleet of two that is to get new objectives and a third replica."""
    wanted = spec(
        **OFF, replicas=3, slos=[each.model_dump(by_alias=True) for each in WITH_SLO.slos]
    )
    before = status(tunables.initial(spec(**OFF)), desired_replicas=2)
    metadata = {"name": "chat", "namespace": "d", "uid": "u", "generation": 1,
                "resourceVersion": "5"}  # fmt: skip
    known = Pinned(image="engine:1", startup=startup_hash(wanted), defaults=LATEST,
                   strategy=RolloutStrategy.SURGE)  # fmt: skip
    owned = {"name": "chat-tunables", "namespace": "d", "resourceVersion": "1",
             "ownerReferences": [{"uid": "u"}]}  # fmt: skip
    data = {"tunables.json": tunables.text(tunables.initial(spec(**OFF)))}
    given: dict[str, Any] = {
        "spec": wanted, "status": before, "pinned": known,
        "service": {"metadata": metadata, "status": {"memory": {pinned.KEY: pinned.dump(known)}}},
        "children": {("ConfigMap", "chat-tunables"): {"metadata": owned, "data": data}},
    }  # fmt: skip
    return seen(**{**given, **fields})


def counted(ctx: Context) -> float:
    """How often a person's number of replicas was counted."""
    (family,) = ctx.instruments.decisions.collect()
    found = (s for s in family.samples if s.name.endswith("_total"))
    return sum(s.value for s in found if s.labels["reason"] == "ManualValue")


@pytest.mark.behaviour(
    "what is done of a pass that failed is told and counted, once",
    report="replicas that were ordered before another write failed came without an event",
)
@pytest.mark.parametrize("error", [UnavailableError("away"), ForbiddenError("may not patch pods")])
async def test_replicas_that_were_ordered_are_known_where_the_rest_then_fails(
    monkeypatch: pytest.MonkeyPatch, ctx: Context, api: FailingApi, error: KubeError
) -> None:
    """Else they are not told of, not counted, and ordered again sooner than they may be."""
    marked = replace(A, draining_since_s=NOW_S - 900)
    gathers(monkeypatch, ctx, changing(pods=(marked, B)))
    api.failures = {"pods/" + A.name: error}
    with suppress(UnavailableError):
        await passes.tick(ctx, KEY)
    session = ctx.session(KEY)
    assert "scale" in api.writes
    assert session.target == 3
    assert session.last_tick is not None
    assert [each.after for each in session.last_tick.decisions if each.knob is Knob.REPLICAS] == [3]
    assert (api.reasons.count("ManualValue"), counted(ctx)) == (1, 1)
    api.failures = {}
    stored = InferenceServiceStatus.model_validate(api.statuses[-1])
    gathers(monkeypatch, ctx, changing(pods=(marked, B), status=stored))
    await passes.tick(ctx, KEY)
    said = [each["reason"] for each in api.statuses[-1]["decisions"]]
    assert (said, api.reasons.count("ManualValue"), counted(ctx)) == (["ManualValue"], 1, 1)


async def test_a_scale_in_that_is_taken_back_is_told_once(
    monkeypatch: pytest.MonkeyPatch, ctx: Context, api: FailingApi
) -> None:
    marked = replace(A, draining_since_s=NOW_S - 5)
    paused = spec(scaling={"maxReplicas": 4, "pause": "In"}, tuning={"mode": "Off"})
    gathers(monkeypatch, ctx, changing(spec=paused, pods=(marked, B)))
    ctx.session(KEY).target = 1
    await passes.tick(ctx, KEY)
    assert (ctx.session(KEY).target, api.reasons.count("ScaleInHeld")) == (2, 1)
    gathers(monkeypatch, ctx, changing(spec=paused))
    await passes.tick(ctx, KEY)
    assert api.reasons.count("ScaleInHeld") == 1


async def test_what_was_announced_is_kept_where_the_scale_then_fails(
    monkeypatch: pytest.MonkeyPatch, ctx: Context, api: FailingApi
) -> None:
    gathers(monkeypatch, ctx, changing())
    api.failures = {"/scale": UnavailableError("restarting")}
    with pytest.raises(UnavailableError):
        await passes.tick(ctx, KEY)
    (announced,) = api.statuses
    session = ctx.session(KEY)
    assert session.memory == load_memory(announced["memory"]["pilot"])
    assert session.memory != Memory()
    assert session.target == 3


async def test_the_announcing_write_tells_of_its_moves_and_no_move_is_told_twice(
    monkeypatch: pytest.MonkeyPatch, ctx: Context, api: FailingApi
) -> None:
    gathers(monkeypatch, ctx, changing())
    api.failures = {"/scale": UnavailableError("restarting")}
    with pytest.raises(UnavailableError):
        await passes.tick(ctx, KEY)
    (announced,) = api.statuses
    assert [each["reason"] for each in announced["decisions"]] == ["ManualValue"]
    assert announced["lastDecision"]["reason"] == "ManualValue"
    api.failures = {}
    reports = {each.uid: replace(REPORT, revision=1) for each in (A, B)}
    stored = InferenceServiceStatus.model_validate(announced)
    gathers(monkeypatch, ctx, changing(status=stored, reports=reports))
    await passes.tick(ctx, KEY)
    final = api.statuses[-1]
    assert final["desiredReplicas"] == 3
    assert [each["reason"] for each in final["decisions"]] == ["ManualValue"]


async def test_a_spec_the_server_refuses_leaves_no_move_behind(
    monkeypatch: pytest.MonkeyPatch, ctx: Context, api: FailingApi
) -> None:
    gathers(monkeypatch, ctx, changing())
    api.failures = {"deployments/chat": InvalidError("restartPolicy"),
                    "apps/v1/namespaces/d/deployments": InvalidError("restartPolicy")}  # fmt: skip
    await passes.tick(ctx, KEY)
    session, (written,) = ctx.session(KEY), api.statuses
    assert (session.memory, session.target, session.unpublished) == (Memory(), 2, ())
    assert (written.get("decisions", []), written["desiredReplicas"]) == ([], 2)
    assert written["budget"]["revision"] == 0


ENGINES_AT = "deployments/chat"
EARLIER = Pinned(image="engine:0", startup="of before", strategy=RolloutStrategy.SURGE)
BEFORE = Start(image="engine:0", defaults=0)


def starting(**fields: Any) -> Observed:
    """A fleet whose engines are to be started with another image than before."""
    status_ = {"memory": {pinned.KEY: pinned.dump(EARLIER)}}
    service = {**changing().service, "status": status_}
    return changing(service=service, pinned=EARLIER, **fields)


def chosen_by_the_next(api: FailingApi) -> Pinned:
    """What the next process reads of what this one has written."""
    return pinned.load(api.statuses[-1])


@pytest.mark.behaviour(
    "what engines are started with is in the status before they are: no process starts them twice",
    report="ended between the write of the Deployment and of the status, an operator with another "
    "default image had the fleet replaced once more",
)
async def test_what_engines_are_started_with_is_written_ahead(
    monkeypatch: pytest.MonkeyPatch, ctx: Context, api: FailingApi
) -> None:
    gathers(monkeypatch, ctx, starting())
    # All that follows on the Deployment is lost.
    api.failures = {"POST /api/v1/namespaces/d/configmaps": UnavailableError("ended"),
                    "configmaps/chat-proxy": UnavailableError("ended")}  # fmt: skip
    with pytest.raises(UnavailableError):
        await passes.tick(ctx, KEY)
    wanted = startup_hash(changing().spec or spec())
    assert api.writes.index("status") < api.writes.index("chat", api.writes.index("status"))
    assert chosen_by_the_next(api).start_for(wanted) == Start(image="engine:1", defaults=LATEST)
    assert chosen_by_the_next(api).start_for("of before") == BEFORE
    assert ctx.session(KEY).pinned == changing().pinned


async def test_one_that_exists_no_more_is_begun_without_a_word_ahead(
    monkeypatch: pytest.MonkeyPatch, ctx: Context, api: FailingApi
) -> None:
    gathers(monkeypatch, ctx, starting(deployment=None, pods=(), reports={}))
    await passes.tick(ctx, KEY)
    assert len(api.statuses) == 1
    assert chosen_by_the_next(api) == changing().pinned


async def test_a_start_the_server_refuses_is_written_ahead_once_and_leaves_what_was(
    monkeypatch: pytest.MonkeyPatch, ctx: Context, api: FailingApi
) -> None:
    gathers(monkeypatch, ctx, starting())
    api.failures = {ENGINES_AT: InvalidError("restartPolicy")}
    await passes.tick(ctx, KEY)
    before = len(api.statuses)
    stored = api.statuses[-1]
    again = starting(status=InferenceServiceStatus.model_validate(stored))
    gathers(monkeypatch, ctx, replace(again, service={**again.service, "status": stored}))
    await passes.tick(ctx, KEY)
    assert len(api.statuses) == before
    assert chosen_by_the_next(api).start_for("of before") == BEFORE
    assert ctx.session(KEY).pinned == EARLIER.expecting(changing().pinned)


@pytest.mark.parametrize(
    "error", [ForeignChildError("chat-proxy exists"), ForbiddenError("may not")]
)
async def test_what_was_started_is_remembered_where_a_later_child_is_refused(
    monkeypatch: pytest.MonkeyPatch, ctx: Context, api: FailingApi, error: KubeError
) -> None:
    gathers(monkeypatch, ctx, starting())
    api.failures = {"configmaps/chat-proxy": error,
                    "POST /api/v1/namespaces/d/configmaps": error}  # fmt: skip
    await passes.tick(ctx, KEY)
    assert chosen_by_the_next(api) == changing().pinned == ctx.session(KEY).pinned


async def test_a_refused_spec_drops_nothing_that_is_remembered(
    monkeypatch: pytest.MonkeyPatch, ctx: Context, api: FailingApi
) -> None:
    """Not even where the stored status was not understood."""
    unread = replace(
        starting(status=InferenceServiceStatus()),
        spec=None, refused=Problem("InvalidSpec", "spec.x: no"),
    )  # fmt: skip
    gathers(monkeypatch, ctx, unread)
    await passes.tick(ctx, KEY)
    assert chosen_by_the_next(api) == EARLIER


async def test_a_right_that_is_missing_is_said_though_all_else_goes_on(
    monkeypatch: pytest.MonkeyPatch, ctx: Context, api: FailingApi
) -> None:
    denied = Problem("MissingRight", "GET secrets/chat-admin: 403")
    gathers(monkeypatch, ctx, changing(missing_right=denied))
    await passes.tick(ctx, KEY)
    said = {each["type"]: each for each in api.statuses[-1]["conditions"]}
    assert (said["Stalled"]["status"], said["Stalled"]["reason"]) == ("True", "MissingRight")
    assert said["Ready"]["reason"] != "MissingRight"
    assert ctx.session(KEY).target == 3


async def test_a_login_that_is_not_known_just_now_stalls_nothing(
    monkeypatch: pytest.MonkeyPatch, ctx: Context, api: FailingApi
) -> None:
    gathers(monkeypatch, ctx, changing())
    api.failures = {"deployments/chat": UnauthorizedError("401"),
                    "apps/v1/namespaces/d/deployments": UnauthorizedError("401")}  # fmt: skip
    with pytest.raises(UnauthorizedError):
        await passes.tick(ctx, KEY)
    assert ctx.changes == ()
    assert api.statuses == []


async def test_a_refusal_of_what_is_left_to_do_is_told_too(
    monkeypatch: pytest.MonkeyPatch, ctx: Context, api: FailingApi
) -> None:
    """Where no mark may be taken off a pod, nothing else of the object would be told any more."""
    marked = replace(A, draining_since_s=NOW_S - 900)
    gathers(monkeypatch, ctx, changing(pods=(marked, B)))
    api.failures = {"pods/" + A.name: ForbiddenError("may not patch pods")}
    await passes.tick(ctx, KEY)
    said = {each["type"]: each for each in api.statuses[-1]["conditions"]}
    assert (said["Stalled"]["status"], said["Stalled"]["reason"]) == ("True", "MissingRight")


@pytest.mark.parametrize(
    ("error", "pods", "delay_s"),
    [
        (ForeignChildError("Secret chat-admin exists"), (), 5.0),
        (InvalidError("restartPolicy"), (), 15.0),
        (InvalidError("restartPolicy"), (A, B), 5.0),
    ],
    ids=["a name that is taken", "a spec that is refused", "and engines that are measured on"],
)
async def test_what_is_refused_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
    ctx: Context,
    error: KubeError,
    pods: tuple[PodView, ...],
    delay_s: float,
) -> None:
    async def refuse(*_: Any) -> int:
        raise error

    gathers(monkeypatch, ctx, changing(pods=pods))
    monkeypatch.setattr(children, "bring_about", refuse)
    assert await passes.tick(ctx, KEY) == delay_s


async def test_a_new_generation_keeps_the_record_of_recommendations(
    monkeypatch: pytest.MonkeyPatch, ctx: Context
) -> None:
    observed = changing()
    asked: list[Memory] = []

    def decide(given: Observed, *_: Any, **__: Any) -> Any:
        asked.append(given.memory)
        raise UnavailableError("enough")

    monkeypatch.setattr(passes, "decide", decide)
    memory = Memory(replica_at_s=NOW_S - 5, knob_at_s=NOW_S - 1)
    gathers(monkeypatch, ctx, replace(observed, memory=memory))
    with pytest.raises(UnavailableError):
        await passes.tick(ctx, KEY)
    assert asked[0].replica_at_s == NOW_S - 15
    assert asked[0].knob_at_s == NOW_S - 10


async def test_a_pass_between_two_rounds_comes_back_for_the_next(
    monkeypatch: pytest.MonkeyPatch, ctx: Context
) -> None:
    gathers(monkeypatch, ctx, changing(spec=spec(**OFF, replicas=2)))
    await passes.tick(ctx, KEY)
    ctx.session(KEY).scraped_at_s = NOW_S - 3.0
    assert await passes.tick(ctx, KEY) == 2.0


@pytest.mark.behaviour(
    "what was measured is decided upon, also where the pass that measured it failed",
    report="a conflict of one write put the answer to a surge off until the next readings",
)
async def test_a_round_whose_pass_failed_is_decided_upon_by_the_next(
    monkeypatch: pytest.MonkeyPatch, ctx: Context, api: FailingApi
) -> None:
    gathers(monkeypatch, ctx, changing())
    session = ctx.session(KEY)
    session.stepped_generation, session.undecided = 1, True
    api.failures = {"/scale": UnavailableError("restarting"), "/status": ConflictError("changed")}
    with pytest.raises(ConflictError):
        await passes.tick(ctx, KEY)
    assert session.last_tick is None
    api.failures = {}
    await passes.tick(ctx, KEY)
    assert session.last_tick is not None
    assert not session.undecided


@pytest.mark.parametrize(
    ("read", "said"),
    [(DataClass.FRESH, "True"), (DataClass.STALE, "False"), (DataClass.ABSENT, "False")],
)
async def test_of_a_spec_that_cannot_be_read_only_what_is_measured_is_said(
    monkeypatch: pytest.MonkeyPatch, ctx: Context, api: FailingApi, read: DataClass, said: str
) -> None:
    """The last judgement was made of another spec, and of engines as they were."""
    met = SloMeasurement(
        name="ttft", metric=SloMetric.TTFT, percentile=95, target_ms=500, samples=99, met=True
    )
    ctx.session(KEY).last_tick = Tick(
        decisions=(), actions=(), memory=Memory(), slo=(met,), data=DataClass.FRESH
    )
    pods = {each.uid: PodReading(data=read) for each in (A, B)}
    refused = Problem("InvalidSpec", "spec.x: no")
    scrape = Scrape(pods=pods, slices=())
    unread = replace(changing(), spec=None, refused=refused, scrape=scrape)
    gathers(monkeypatch, ctx, unread)
    await passes.tick(ctx, KEY)
    told = {each["type"]: each["status"] for each in api.statuses[-1]["conditions"]}
    assert (told["MetricsFresh"], told["SLOMet"]) == (said, "Unknown")
