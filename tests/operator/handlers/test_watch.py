"""kopf's handlers: events feed the store and the queue, and kopf itself writes nothing."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from itertools import islice
from typing import Any

import kopf
import pytest
from kubernetes_asyncio.client import Configuration

from paceline_operator.domain.names import LABEL_SERVICE
from paceline_operator.handlers import watch
from paceline_operator.kube.resource import (
    AUTOSCALER,
    INFERENCE_SERVICE,
    POD,
    Resource,
)
from paceline_operator.kube.store import Key, Store
from paceline_operator.reconcile.queue import WorkQueue


@pytest.fixture
def queue() -> WorkQueue[Key]:
    return WorkQueue(time.monotonic)


def handlers(store: Store, queue: WorkQueue[Key], *, has_keda: bool = False) -> dict[str, Any]:
    registry = watch.registry(store, queue, Configuration(), has_keda=has_keda)
    return {str(each.id): each.fn for each in registry._watching.get_all_handlers()}


def event(kind: str | None, name: str, **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "d", "uid": name, "resourceVersion": "1"}
    return {"type": kind, "object": {"metadata": {**metadata, "labels": labels}}}


async def test_an_object_is_stored_and_asked_for(queue: WorkQueue[Key]) -> None:
    store = Store()
    await handlers(store, queue)["inferenceservices"](event=event(None, "chat"))
    assert await asyncio.wait_for(queue.get(), 2) == ("d", "chat")
    stored = store.get(INFERENCE_SERVICE, "d", "chat")
    assert stored is not None
    assert stored["kind"] == "InferenceService"


async def test_a_child_asks_for_its_service(queue: WorkQueue[Key]) -> None:
    store = Store()
    await handlers(store, queue)["pods"](event=event("ADDED", "p", **{LABEL_SERVICE: "chat"}))
    assert await asyncio.wait_for(queue.get(), 2) == ("d", "chat")
    assert [each["metadata"]["name"] for each in store.children(POD, "d", "chat")] == ["p"]


async def test_a_deleted_child_is_forgotten_and_its_service_asked_for(
    queue: WorkQueue[Key],
) -> None:
    store = Store()
    feed = handlers(store, queue)["pods"]
    await feed(event=event("ADDED", "p", **{LABEL_SERVICE: "chat"}))
    await feed(event=event("DELETED", "p", **{LABEL_SERVICE: "chat"}))
    assert await asyncio.wait_for(queue.get(), 2) == ("d", "chat")
    assert store.children(POD, "d", "chat") == []


async def test_a_burst_of_events_is_one_pass(queue: WorkQueue[Key]) -> None:
    feed = handlers(Store(), queue)["pods"]
    for _ in range(50):
        await feed(event=event("MODIFIED", "p", **{LABEL_SERVICE: "chat"}))
    assert len(queue) == 1


async def test_autoscalers_are_only_remembered(queue: WorkQueue[Key]) -> None:
    store = Store()
    await handlers(store, queue)["horizontalpodautoscalers"](event=event(None, "h"))
    assert store.get(AUTOSCALER, "d", "h") is not None
    assert len(queue) == 0


def test_keda_is_watched_only_where_it_is_installed(queue: WorkQueue[Key]) -> None:
    assert "scaledobjects" not in handlers(Store(), queue)
    assert "scaledobjects" in handlers(Store(), queue, has_keda=True)


def test_secrets_are_never_watched(queue: WorkQueue[Key]) -> None:
    assert "secrets" not in handlers(Store(), queue)


@pytest.mark.behaviour(
    "whatever becomes of a watched child, its service is asked for at once",
    report="a child given to another service was missed by its own for five minutes",
)
@pytest.mark.parametrize("kind", watch.OWNED, ids=lambda kind: kind.plural)
@pytest.mark.parametrize(
    ("change", "labels", "asked"),
    [
        ("DELETED", {LABEL_SERVICE: "chat"}, {("d", "chat")}),
        ("MODIFIED", {LABEL_SERVICE: "chat"}, {("d", "chat")}),
        ("MODIFIED", {LABEL_SERVICE: "other"}, {("d", "chat"), ("d", "other")}),
        ("MODIFIED", {}, {("d", "chat")}),
    ],
    ids=["deleted", "changed", "relabelled", "unlabelled"],
)
async def test_a_change_of_a_child(
    queue: WorkQueue[Key], kind: Resource, change: str, labels: dict[str, str], asked: set[Key]
) -> None:
    feed = handlers(Store(), queue)[kind.plural]
    await feed(event=event(None, "c", **{LABEL_SERVICE: "chat"}))
    queue.done(await asyncio.wait_for(queue.get(), 2))
    await feed(event=event(change, "c", **labels))
    assert len(queue) == len(asked)
    assert {await asyncio.wait_for(queue.get(), 2) for _ in asked} == asked


class AnswerError(Exception):
    """As kopf's own client raises it of an answer."""

    status = 404


def record(name: str, error: Exception) -> logging.LogRecord:
    given = (type(error), error, None)
    return logging.LogRecord(name, logging.ERROR, "f", 1, "watcher failed", None, given)


@pytest.mark.parametrize(
    ("name", "error", "kept"),
    [
        ("kopf._core.reactor.orchestration", AnswerError("404"), False),
        ("kopf._core.reactor.orchestration", ValueError("a defect"), True),
        ("paceline_operator.reconcile", AnswerError("404"), True),
    ],
)
def test_an_answer_of_the_server_is_one_line_of_kopfs_log(
    name: str, error: Exception, kept: bool
) -> None:
    found = record(name, error)
    assert watch.WithoutTrace().filter(found)
    assert (found.exc_info is not None) is kept


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (AnswerError("404 page not found"), "watching has ended (AnswerError: 404 page not found)"),
        (RuntimeError("a\n  b"), "watching has ended (RuntimeError: a b)"),
    ],
)
async def test_what_ends_kopf_is_one_line(
    monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    async def ending(**_: Any) -> None:
        raise error

    monkeypatch.setattr(kopf, "operator", ending)
    with pytest.raises(watch.WatchEndedError, match=re.escape(said)):
        await watch.run(kopf.OperatorRegistry(), ("d",))


def test_kopf_is_told_to_write_nothing() -> None:
    chosen = watch.settings()
    assert chosen.peering.standalone
    assert chosen.scanning.disabled
    assert not chosen.posting.enabled


def test_a_watch_is_never_given_up() -> None:
    backoffs = watch.settings().networking.error_backoffs
    assert not isinstance(backoffs, float)
    pauses = list(islice(iter(backoffs), 200))
    assert len(pauses) == 200
    assert min(pauses) > 0
    assert max(pauses) <= 12


@pytest.mark.parametrize("kind", watch.OWNED, ids=lambda kind: kind.plural)
def test_children_are_selected_by_the_server(kind: Resource) -> None:
    selectors = watch.settings().watching.label_selectors
    asked = kopf.Resource(kind.group, kind.version, kind.plural)
    assert selectors.collect(asked) == ["paceline.dev/service"]


async def test_kopf_gets_the_clients_credentials() -> None:
    configuration = Configuration()
    configuration.host = "https://api:6443"
    configuration.api_key["BearerToken"] = "Bearer secret"
    connection = await watch.connection(configuration)
    assert (connection.server, connection.token) == ("https://api:6443", "secret")
    assert connection.proxy_url is None


async def test_kopf_goes_the_clients_way() -> None:
    configuration = Configuration()
    configuration.host, configuration.proxy = "https://api:6443", "http://proxy:3128"
    assert (await watch.connection(configuration)).proxy_url == "http://proxy:3128"
