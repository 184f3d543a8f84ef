"""Events told to users through the API, each once: a repeat raises a count instead."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from paceline_operator.api.v1alpha1 import API_VERSION, KIND
from paceline_operator.kube.client import MERGE_PATCH, KubeClient, Object
from paceline_operator.kube.errors import KubeError, LeaseLostError, NotFoundError
from paceline_operator.kube.resource import EVENT

log = logging.getLogger(__name__)

REPORTER = "paceline.dev/operator"
QUIET_S = 600.0
MAX_NOTE = 1024
MAX_KNOWN = 10_000


@dataclass(frozen=True, slots=True)
class Note:
    """What to tell about one object."""

    reason: str
    action: str
    text: str
    warning: bool = False


@dataclass(slots=True)
class _Told:
    name: str
    last_s: float
    count: int = 1


class EventRecorder:
    """Writes events; a failure to do so never stops the caller."""

    def __init__(self, client: KubeClient, instance: str, clock: Callable[[], float]) -> None:
        self._client = client
        self._instance = instance
        self._clock = clock
        self._told: dict[str, _Told] = {}

    async def tell(self, about: Object, note: Note) -> None:
        """Tell about an object; the same reason and action again within 10 minutes is counted.

        The text is that of the first: it holds figures that differ each time.

        Raises:
            LeaseLostError: This process may not write any more.
        """
        metadata = about["metadata"]
        identity = f"{metadata['uid']}/{note.reason}/{note.action}"
        digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
        known = self._told.get(digest)
        try:
            if known is not None and self._clock() - known.last_s < QUIET_S:
                await self._repeat(metadata["namespace"], known)
            else:
                await self._first(metadata, note, digest)
        except LeaseLostError:
            raise
        except KubeError as error:
            log.warning("event %s not written: %s", note.reason, error)

    async def _first(self, metadata: dict[str, Any], note: Note, digest: str) -> None:
        now = self._clock()
        name = f"{metadata['name'][:200]}.{digest}.{int(now * 1000):x}"
        body = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": name, "namespace": metadata["namespace"]},
            "eventTime": _micro_time(now),
            "reportingController": REPORTER,
            "reportingInstance": self._instance[:128],
            "action": note.action,
            "reason": note.reason,
            "type": "Warning" if note.warning else "Normal",
            "note": note.text[:MAX_NOTE],
            "regarding": {
                "apiVersion": API_VERSION, "kind": KIND, "name": metadata["name"],
                "namespace": metadata["namespace"], "uid": metadata["uid"],
            },
        }  # fmt: skip
        await self._client.write("POST", EVENT.path(metadata["namespace"]), body)
        self._remember(digest, _Told(name, now))

    async def _repeat(self, namespace: str, known: _Told) -> None:
        known.count += 1
        known.last_s = self._clock()
        series = {"count": known.count, "lastObservedTime": _micro_time(known.last_s)}
        path = EVENT.path(namespace, known.name)
        try:
            await self._client.write("PATCH", path, {"series": series}, content_type=MERGE_PATCH)
        except NotFoundError:
            known.last_s = float("-inf")

    def _remember(self, digest: str, told: _Told) -> None:
        if len(self._told) >= MAX_KNOWN:
            self._told.pop(next(iter(self._told)))
        self._told[digest] = told


def _micro_time(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
