"""Memory of objects: another UID is another object."""

from __future__ import annotations

from typing import Any

import aiohttp
from kubernetes_asyncio.client import Configuration

from paceline_operator.api.choice import Mode
from paceline_operator.kube.client import KubeClient
from paceline_operator.kube.event import EventRecorder
from paceline_operator.kube.resource import INFERENCE_SERVICE
from paceline_operator.kube.store import Store
from paceline_operator.metrics import DirectSource, HttpFetch
from paceline_operator.reconcile.context import Context
from paceline_operator.reconcile.engine_admin import EngineAdmin
from paceline_operator.reconcile.instruments import Instruments
from paceline_operator.reconcile.queue import WorkQueue
from tests.support.fleet import NOW_S, PLATFORM

KEY = ("d", "chat")


def service(uid: str, version: int) -> dict[str, Any]:
    metadata = {"namespace": "d", "name": "chat", "uid": uid, "resourceVersion": str(version)}
    return {"metadata": metadata}


async def test_an_object_made_anew_under_the_same_name_inherits_nothing() -> None:
    async with aiohttp.ClientSession() as http:
        client = KubeClient(Configuration())
        ctx = Context(
            client=client, engines=EngineAdmin(http), source=DirectSource(HttpFetch(http)),
            store=Store(),
            queue=WorkQueue(lambda: NOW_S), events=EventRecorder(client, "o", lambda: NOW_S),
            platform=PLATFORM, max_mode=Mode.AUTO, clock=lambda: NOW_S,
            instruments=Instruments(),
        )  # fmt: skip
        early = ctx.session(KEY)
        ctx.store.put(INFERENCE_SERVICE, service("one", 1))
        assert ctx.session(KEY) is early
        early.target = 7
        ctx.store.put(INFERENCE_SERVICE, service("one", 2))
        assert ctx.session(KEY) is early
        ctx.store.put(INFERENCE_SERVICE, service("two", 3))
        fresh = ctx.session(KEY)
        assert (fresh.uid, fresh.target) == ("two", None)
