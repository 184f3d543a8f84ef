"""kopf's part: events of watched kinds feed the store and the queue; kopf writes nothing."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from typing import Any

import aiohttp
import kopf
from kubernetes_asyncio.client import Configuration
from typing_extensions import override

from paceline_operator.domain.names import LABEL_SERVICE
from paceline_operator.kube.client import Object
from paceline_operator.kube.resource import (
    AUTOSCALER,
    CONFIG_MAP,
    DEPLOYMENT,
    INFERENCE_SERVICE,
    POD,
    SCALED_OBJECT,
    SERVICE,
    Resource,
)
from paceline_operator.kube.store import Key, Store, key_of, owner_key
from paceline_operator.reconcile.queue import WorkQueue

OWNED = (DEPLOYMENT, SERVICE, CONFIG_MAP, POD)
"""Not Secrets: the right to watch some is the right to list all."""

SETTLE_S = 0.1
"""Events come in bursts; one pass a tenth of a second later serves them all."""


class WatchEndedError(Exception):
    """kopf has given a watch up, and so ends; the text is one line for people."""


class WithoutTrace(logging.Filter):
    """Leaves of kopf's records the line, where an answer of the API server is all they tell."""

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass."""
        error = record.exc_info[1] if record.exc_info else None
        if record.name.startswith("kopf.") and error is not None and _is_answer(error):
            record.exc_info = record.exc_text = None
        return True


class _Backoffs:
    """Pauses between attempts, without end: a watch is never given up."""

    def __iter__(self) -> Iterator[float]:
        pause = 0.5
        while True:
            yield pause * random.uniform(0.8, 1.2)  # noqa: S311 - spreads load, hides nothing
            pause = min(10.0, pause * 2)


def settings() -> kopf.OperatorSettings:
    """Settings under which kopf only watches: no peering, no posting, no annotations."""
    chosen = kopf.OperatorSettings()
    chosen.peering.standalone = True
    chosen.posting.enabled = False
    chosen.scanning.disabled = True
    chosen.networking.request_timeout = 30.0
    chosen.networking.error_backoffs = _Backoffs()
    for kind in OWNED:
        # As lists choose them: what only one of both showed would come and go, or stay unseen.
        chosen.watching.label_selectors[_key(kind)] = LABEL_SERVICE
    return chosen


def _key(kind: Resource) -> Any:
    return (kind.group, kind.version, kind.plural)


async def run(made: kopf.OperatorRegistry, namespaces: tuple[str, ...]) -> None:
    """Watch until cancelled, or told to stop by a signal.

    Args:
        made: Handlers.
        namespaces: Where to watch; everywhere without any.

    Raises:
        WatchEndedError: A watch was refused, as it is once its kind is gone.
    """
    try:
        await kopf.operator(
            registry=made,
            settings=settings(),
            standalone=True,
            clusterwide=not namespaces,
            namespaces=namespaces,
        )
    except Exception as error:
        # kopf gives all watches up for one, whatever the reason; it has logged those of its own.
        raise WatchEndedError(
            f"{_told(error)}; the next start watches what there is then"
        ) from error


def _told(error: Exception) -> str:
    reply = error.__cause__
    if _is_answer(error) and isinstance(reply, aiohttp.ClientResponseError):
        return f"the API server answered {reply.status} to {reply.request_info.url.path}"
    return f"watching has ended ({type(error).__name__}: {' '.join(str(error).split())})"


def _is_answer(error: BaseException) -> bool:
    # The types of kopf's own client are private.
    return isinstance(getattr(error, "status", None), int)


def registry(
    store: Store, queue: WorkQueue[Key], configuration: Configuration, *, has_keda: bool
) -> kopf.OperatorRegistry:
    """Handlers: one login, and one `on.event` for each watched kind."""
    made = kopf.OperatorRegistry()
    _watch(made, INFERENCE_SERVICE, _service_handler(store, queue))
    for kind in OWNED:
        _watch(made, kind, _owned_handler(kind, store, queue))
    for kind in (AUTOSCALER, SCALED_OBJECT) if has_keda else (AUTOSCALER,):
        _watch(made, kind, _stored_handler(kind, store))

    @kopf.on.login(registry=made)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return await connection(configuration)

    return made


def _watch(made: kopf.OperatorRegistry, kind: Resource, handler: Any) -> None:
    kopf.on.event(
        group=kind.group, version=kind.version, plural=kind.plural, id=kind.plural, registry=made
    )(handler)


async def connection(configuration: Configuration) -> kopf.ConnectionInfo:
    """Our client's credentials for kopf; asked for again when they are refused."""
    token = await configuration.get_api_key_with_prefix("BearerToken")
    return kopf.ConnectionInfo(
        server=str(configuration.host),
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        token=token.removeprefix("Bearer ") if token else None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
        proxy_url=configuration.proxy or None,
    )


def _service_handler(store: Store, queue: WorkQueue[Key]) -> Any:
    async def service_event(event: Any, **_: Any) -> None:
        item = _object(INFERENCE_SERVICE, event)
        _keep(store, INFERENCE_SERVICE, event, item)
        queue.add(key_of(item), SETTLE_S)

    return service_event


def _owned_handler(kind: Resource, store: Store, queue: WorkQueue[Key]) -> Any:
    async def owned_event(event: Any, **_: Any) -> None:
        item = _object(kind, event)
        # Whose it was misses it now.
        before = store.get(kind, *key_of(item))
        _keep(store, kind, event, item)
        for each in (before, item):
            owner = None if each is None else owner_key(each)
            if owner is not None:
                queue.add(owner, SETTLE_S)

    return owned_event


def _stored_handler(kind: Resource, store: Store) -> Any:
    async def stored_event(event: Any, **_: Any) -> None:
        _keep(store, kind, event, _object(kind, event))

    return stored_event


def _object(kind: Resource, event: Any) -> Object:
    # Items of a list come without these two.
    return {"apiVersion": kind.api_version, "kind": kind.kind, **event["object"]}


def _keep(store: Store, kind: Resource, event: Any, item: Object) -> None:
    if event["type"] == "DELETED":
        store.remove(kind, item)
    else:
        store.put(kind, item)
