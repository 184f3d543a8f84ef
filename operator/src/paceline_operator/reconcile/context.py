"""What every tick shares: clients, the store, the queue, the installation's part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from paceline_operator.api.choice import Mode
from paceline_operator.domain import blast_radius
from paceline_operator.domain.platform import Platform
from paceline_operator.kube.client import KubeClient
from paceline_operator.kube.event import EventRecorder
from paceline_operator.kube.resource import INFERENCE_SERVICE
from paceline_operator.kube.store import Key, Store
from paceline_operator.metrics import Scraper, Source
from paceline_operator.reconcile.engine_admin import EngineAdmin
from paceline_operator.reconcile.instruments import Instruments
from paceline_operator.reconcile.queue import WorkQueue
from paceline_operator.reconcile.recording import Recorder, Unrecorded
from paceline_operator.reconcile.session import Session
from paceline_operator.reconcile.unmeasured import Unmeasured


@dataclass(slots=True, kw_only=True)
class Context:
    """Everything a tick needs.

    Attributes:
        client: Kubernetes.
        engines: Admin ports of engines.
        source: Where engines' metrics are read.
        store: What was last seen of every watched object.
        queue: Objects to look at, and when.
        events: Tells users.
        platform: The installation's part of rendering.
        max_mode: Most autonomy any object gets here.
        most_changes: Most that the autopilot may change over all objects in a minute.
        changes: What it has changed in the last minute.
        clock: Seconds since the epoch.
        instruments: The operator's own metrics.
        recorder: Keeps decisions to be made again.
        has_keda: Whether the cluster has ScaledObjects.
        sessions: Memory of each object between ticks.
        unmeasured: Why pods are not measured, as far as the log tells it.
    """

    client: KubeClient
    engines: EngineAdmin
    source: Source
    store: Store
    queue: WorkQueue[Key]
    events: EventRecorder
    platform: Platform
    max_mode: Mode
    clock: Callable[[], float]
    instruments: Instruments
    recorder: Recorder = field(default_factory=Unrecorded)
    has_keda: bool = False
    most_changes: blast_radius.Limits = field(default_factory=blast_radius.Limits)
    changes: tuple[blast_radius.Change, ...] = ()
    sessions: dict[Key, Session] = field(default_factory=dict)
    unmeasured: Unmeasured = field(default_factory=Unmeasured)

    def session(self, key: Key) -> Session:
        """Memory of one object, made at first sight; another UID is another object."""
        service = self.store.get(INFERENCE_SERVICE, *key) or {"metadata": {}}
        uid = str(service["metadata"].get("uid", ""))
        known = self.sessions.get(key)
        if known is None or (uid and known.uid not in ("", uid)):
            known = self.sessions[key] = Session(scraper=Scraper(self.source))
        known.uid = uid or known.uid
        return known

    def forget(self, key: Key) -> None:
        """Drop all that is known of an object that is gone."""
        session = self.sessions.pop(key, None)
        if session is not None and session.round is not None:
            session.round.cancel()
        self.unmeasured.forget(key)
        self.store.forget_service(*key)
        self.instruments.forget(*key)
