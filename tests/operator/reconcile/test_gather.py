"""What gathering does where the API server or an engine refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from paceline_operator.autopilot.vocabulary.fleet import PodTunables
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.domain.pods import Problem
from paceline_operator.kube.client import Object
from paceline_operator.kube.errors import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    UnavailableError,
)
from paceline_operator.kube.resource import (
    DEPLOYMENT,
    INFERENCE_SERVICE,
    POD,
    SCALED_OBJECT,
)
from paceline_operator.reconcile.context import Context
from paceline_operator.reconcile.engine_admin import RefusedError, UnreachableError
from paceline_operator.reconcile.gather import RESYNC_S, RETRY_S, gather
from paceline_operator.reconcile.session import SETTLE_S
from tests.operator.reconcile.test_decide import REPORT
from tests.operator.reconcile.test_tick import (
    KEY,
    FailingApi,
    NoMetrics,
    ObedientEngines,
    made_context,
)
from tests.support.fleet import NOW_S, made_by, pod_object


class Strangers(ObedientEngines):
    """Engines that know another token."""

    @override
    async def tunables(self, ip: str, token: str) -> PodTunables:
        raise RefusedError("401 unauthorized", 401)


@pytest.fixture
def api() -> FailingApi:
    return FailingApi()


@pytest.fixture
def scraped() -> NoMetrics:
    return NoMetrics()


@pytest.fixture
def ctx(api: FailingApi, scraped: NoMetrics) -> Context:
    """A context that knows one object with one pod, resynced long ago."""
    made = made_context(api, Strangers(), scraped)
    metadata: dict[str, Any] = {"name": "chat", "namespace": "d", "uid": "u", "generation": 1,
                                "resourceVersion": "5"}  # fmt: skip
    made.store.put(INFERENCE_SERVICE, {"metadata": metadata, "spec": {}})
    found = pod_object("chat", "chat-a", ip="10.0.0.1")
    found["metadata"] |= {"namespace": "d", "uid": "p", "resourceVersion": "6"}
    found["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    made.store.put(POD, found)
    session = made.session(KEY)
    session.token, session.resynced_at_s = "t", NOW_S - RESYNC_S - 1
    return made


async def test_one_that_is_going_costs_no_request(
    ctx: Context, api: FailingApi, scraped: NoMetrics
) -> None:
    """Each event of each pod makes a pass, and each would be the first of a session."""
    api.failures = {"": ConflictError("asked")}
    known = ctx.store.get(INFERENCE_SERVICE, *KEY) or {}
    going = {**known["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    ctx.store.put(INFERENCE_SERVICE, {**known, "metadata": {**going, "resourceVersion": "7"}})
    for _ in range(3):
        assert await gather(ctx, KEY) is None
        ctx.forget(KEY)
    assert scraped.urls == []


async def test_an_api_server_that_is_away_stops_no_measurement(
    ctx: Context, api: FailingApi, scraped: NoMetrics
) -> None:
    api.failures = {"": UnavailableError("away")}
    seen = await gather(ctx, KEY)
    assert seen is not None
    assert seen.is_measured
    assert [url.partition("//")[2][:8] for url in scraped.urls] == ["10.0.0.1"]
    assert NOW_S - ctx.session(KEY).resynced_at_s == RESYNC_S - RETRY_S


async def test_keda_that_was_removed_stops_no_resync(ctx: Context, api: FailingApi) -> None:
    ctx.has_keda = True
    for namespace in ("d", "other"):
        metadata = {"name": "old", "namespace": namespace, "uid": namespace, "resourceVersion": "3"}
        ctx.store.put(SCALED_OBJECT, {"metadata": metadata})
    api.failures = {"scaledobjects": NotFoundError("404")}
    assert await gather(ctx, KEY) is not None
    assert ctx.session(KEY).resynced_at_s == NOW_S
    assert not ctx.has_keda
    assert ctx.store.keys(SCALED_OBJECT) == []


async def test_another_list_that_is_not_there_is_no_removal_of_keda(
    ctx: Context, api: FailingApi
) -> None:
    ctx.has_keda = True
    api.failures = {"horizontalpodautoscalers": NotFoundError("404")}
    with pytest.raises(NotFoundError):
        await gather(ctx, KEY)
    assert ctx.has_keda


async def test_an_engine_that_knows_another_token_has_it_read_again(ctx: Context) -> None:
    session = ctx.session(KEY)
    session.resynced_at_s = began = NOW_S - RETRY_S - 1
    assert await gather(ctx, KEY) is not None
    assert session.token_doubted
    assert session.resynced_at_s == began
    assert await gather(ctx, KEY) is not None
    assert session.resynced_at_s == NOW_S


async def test_a_status_of_an_earlier_process_is_left_alone_for_a_minute(ctx: Context) -> None:
    service = dict(ctx.store.get(INFERENCE_SERVICE, *KEY) or {})
    condition = {"type": "Ready", "status": "True", "reason": "PodsReady", "message": "",
                 "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
    service["status"] = {"observedGeneration": 1, "conditions": [condition]}
    ctx.store.put(INFERENCE_SERVICE, service)
    seen = await gather(ctx, KEY)
    assert seen is not None
    assert seen.is_settling
    assert ctx.session(KEY).written_at_s == NOW_S
    assert not ctx.session(KEY).is_settling(NOW_S + SETTLE_S)


async def test_an_object_that_is_new_has_nothing_to_settle(ctx: Context) -> None:
    seen = await gather(ctx, KEY)
    assert seen is not None
    assert not seen.is_settling


@pytest.mark.behaviour(
    "a pod of a fleet that lost a label, or all of them, stops no pass",
    report="a pod without paceline.dev/component ended every pass with a KeyError",
)
@pytest.mark.parametrize("labels", [{"paceline.dev/service": "chat"}, {}, None])
async def test_a_pod_that_lost_its_label_stops_nothing(
    ctx: Context, labels: dict[str, str] | None
) -> None:
    found = pod_object("chat", "chat-b", ip="10.0.0.2")
    found["metadata"] |= {"namespace": "d", "uid": "q", "resourceVersion": "7", "labels": labels}
    ctx.store.put(POD, found)
    ctx.session(KEY).resynced_at_s = NOW_S
    seen = await gather(ctx, KEY)
    assert seen is not None
    assert [pod.name for pod in seen.pods] == ["chat-a"]
    assert seen.proxy_problem is None


@pytest.mark.parametrize(("owner", "seen_as"), [("u", 7), ("before", None), (None, None)])
async def test_what_merely_carries_our_labels_is_no_child(
    ctx: Context, owner: str | None, seen_as: int | None
) -> None:
    owners = [] if owner is None else [{"uid": owner, "kind": "InferenceService", "name": "chat"}]
    metadata = {"name": "chat", "namespace": "d", "uid": "x", "resourceVersion": "8",
                "labels": {"paceline.dev/service": "chat"}, "ownerReferences": owners}  # fmt: skip
    ctx.store.put(DEPLOYMENT, {"metadata": metadata, "spec": {"replicas": 7}})
    ctx.session(KEY).resynced_at_s = NOW_S
    found = await gather(ctx, KEY)
    assert found is not None
    assert (found.scale, ("Deployment", "chat") in found.children) == (seen_as, owner == "u")


async def test_a_memory_of_another_form_is_none(ctx: Context) -> None:
    service = dict(ctx.store.get(INFERENCE_SERVICE, *KEY) or {})
    service["status"] = {"memory": {"pilot": "theirs", "writers": ["theirs"]}}
    ctx.store.put(INFERENCE_SERVICE, service)
    seen = await gather(ctx, KEY)
    assert seen is not None
    assert (seen.memory, seen.writers) == (Memory(), ())


async def test_a_revision_that_is_not_followed_is_said(
    ctx: Context, caplog: pytest.LogCaptureFixture
) -> None:
    class Jumped(ObedientEngines):
        """Engines that someone else has told a revision."""

        @override
        async def tunables(self, ip: str, token: str) -> PodTunables:
            return replace(REPORT, revision=2**60)

    ctx.engines = Jumped()
    ctx.session(KEY).resynced_at_s = NOW_S
    for _ in range(3):
        assert await gather(ctx, KEY) is not None
    said = [each for each in caplog.messages if "does not follow" in each]
    assert said == [
        f"pod chat-a reports revision {2**60}, which the operator does not follow: "
        "it keeps its live values until it is replaced"
    ]


class Silent(ObedientEngines):
    """Engines whose admin port answers nobody."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    @override
    async def tunables(self, ip: str, token: str) -> PodTunables:
        self.asked += 1
        raise UnreachableError("no answer in time")


@pytest.mark.behaviour(
    "an engine whose admin port answers nobody is asked ever less often, and named",
    report="each pass waited 2 s for it: twenty such fleets made the passes of all fleets late",
)
async def test_an_admin_port_that_hangs_is_asked_ever_less_often(ctx: Context) -> None:
    engines = ctx.engines = Silent()
    session = ctx.session(KEY)
    session.resynced_at_s = NOW_S
    for _ in range(5):
        assert await gather(ctx, KEY) is not None
    assert engines.asked == 1
    clock_s = [NOW_S]
    ctx.clock = lambda: clock_s[0]
    for wait_s in (1.0, 2.0, 4.0):
        clock_s[0] += wait_s
        seen = await gather(ctx, KEY)
        assert seen is not None
    assert engines.asked == 4
    assert session.deaf(seen.pods) == ("chat-a",)
    ctx.engines = Answering()
    clock_s[0] += 8.0
    assert await gather(ctx, KEY) is not None
    assert session.deaf(seen.pods) == ()


class Answering(ObedientEngines):
    """Engines that say what they run with."""

    @override
    async def tunables(self, ip: str, token: str) -> PodTunables:
        return REPORT


async def test_an_object_made_anew_while_the_old_one_is_asked_for_stays(
    ctx: Context, api: FailingApi
) -> None:
    old = dict(ctx.store.get(INFERENCE_SERVICE, *KEY) or {})
    new = {**old, "metadata": {**old["metadata"], "uid": "v", "resourceVersion": "9"}}

    async def get(path: str, **_: str) -> Object:
        ctx.store.remove(INFERENCE_SERVICE, old)
        ctx.store.put(INFERENCE_SERVICE, new)
        raise NotFoundError(path)

    api.get = get  # type: ignore[method-assign]
    with pytest.raises(ConflictError):
        await gather(ctx, KEY)
    assert (ctx.store.get(INFERENCE_SERVICE, *KEY) or {})["metadata"]["uid"] == "v"
    assert ctx.store.put(INFERENCE_SERVICE, new)


@pytest.mark.behaviour(
    "a spec that is changed while a pass reads the Secret is what that pass goes by",
    report="the object was read, then up to 10 s were spent on the Secret, then its children read",
)
async def test_a_change_while_the_secret_is_read_is_seen(ctx: Context, api: FailingApi) -> None:
    changed_from = dict(ctx.store.get(INFERENCE_SERVICE, *KEY) or {})

    async def get(path: str, **_: str) -> Object:
        assert path.endswith("/secrets/chat-admin")
        metadata = {**changed_from["metadata"], "generation": 2, "resourceVersion": "9"}
        ctx.store.put(INFERENCE_SERVICE, {"metadata": metadata, "spec": {"replicas": 7}})
        raise NotFoundError(path)

    ctx.session(KEY).resynced_at_s = NOW_S
    api.get = get  # type: ignore[method-assign]
    seen = await gather(ctx, KEY)
    assert seen is not None
    assert seen.spec is not None
    assert (seen.generation, seen.spec.replicas) == (2, 7)


@pytest.mark.parametrize("end", ["gone", "going", "replaced"])
async def test_an_object_that_ends_while_the_secret_is_read(
    ctx: Context, api: FailingApi, end: str
) -> None:
    service = dict(ctx.store.get(INFERENCE_SERVICE, *KEY) or {})

    async def get(path: str, **_: str) -> Object:
        changes = {"going": {"deletionTimestamp": "now"}, "replaced": {"uid": "v"}, "gone": {}}
        metadata = {**service["metadata"], **changes[end], "resourceVersion": "9"}
        if end == "gone":
            ctx.store.remove(INFERENCE_SERVICE, service)
        else:
            ctx.store.put(INFERENCE_SERVICE, {**service, "metadata": metadata})
        raise NotFoundError(path)

    ctx.session(KEY).resynced_at_s = NOW_S
    api.get = get  # type: ignore[method-assign]
    if end == "replaced":
        with pytest.raises(ConflictError):
            await gather(ctx, KEY)
    else:
        assert await gather(ctx, KEY) is None


async def test_a_fleet_whose_secret_may_not_be_read_is_said_to_lack_a_right(
    ctx: Context, api: FailingApi
) -> None:
    session = ctx.session(KEY)
    session.token, session.resynced_at_s = None, NOW_S
    api.failures = {"secrets/chat-admin": ForbiddenError("403")}
    seen = await gather(ctx, KEY)
    assert seen is not None
    assert (seen.spec, seen.refused) == (None, Problem("MissingRight", "403"))
    assert not session.token_doubted  # nobody was shown an empty token
    session.token = "t"
    seen = await gather(ctx, KEY)
    assert seen is not None
    assert seen.spec is not None
    assert (seen.refused, seen.missing_right) == (None, Problem("MissingRight", "403"))


@pytest.mark.parametrize("owners", [None, [], [{"uid": "x", "kind": "Job", "controller": True}]])
async def test_a_pod_that_merely_carries_our_labels_is_left_alone(
    ctx: Context, scraped: NoMetrics, owners: Any
) -> None:
    found = pod_object("chat", "chat-b", ip="10.0.0.2")
    found["metadata"] |= {"namespace": "d", "uid": "q", "resourceVersion": "7"}
    found["metadata"]["ownerReferences"] = owners
    ctx.store.put(POD, found)
    ctx.session(KEY).resynced_at_s = NOW_S
    seen = await gather(ctx, KEY)
    assert seen is not None
    assert [pod.name for pod in seen.pods] == ["chat-a"]
    assert not any("10.0.0.2" in url for url in scraped.urls)


async def test_a_crash_loop_of_a_stranger_is_not_the_proxys(ctx: Context) -> None:
    found = pod_object("chat", "chat-x", ip="10.0.0.2", ready=False)
    found["metadata"] |= {"namespace": "d", "uid": "q", "resourceVersion": "7"}
    found["metadata"]["labels"]["paceline.dev/component"] = "proxy"
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    found["status"]["containerStatuses"][0] |= {"state": waiting, "restartCount": 5}
    for owner, problem in (("chat", None), ("chat-proxy", "CrashLoop")):
        found["metadata"] |= {"ownerReferences": [made_by(owner)]}
        ctx.store.put(POD, found)
        ctx.session(KEY).resynced_at_s = NOW_S
        seen = await gather(ctx, KEY)
        assert seen is not None
        told = None if seen.proxy_problem is None else seen.proxy_problem.reason
        assert told == problem
