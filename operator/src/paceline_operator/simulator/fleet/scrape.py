"""What an operator sees of a simulated fleet: rounds of measuring, and how old each answer is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from paceline_operator.autopilot.vocabulary.fleet import (
    DataClass,
    PodObservation,
    PodTunables,
    is_lost,
)
from paceline_operator.autopilot.vocabulary.slices import Slices
from paceline_operator.autopilot.vocabulary.window import Counter, PodShare, Window
from paceline_operator.domain.pods import UNSCHEDULABLE, PodView
from paceline_operator.simulator.fleet.faults import Faults, MetricsFrozen, ScrapesLost
from paceline_operator.simulator.fleet.fleet_config import ABSENT_AFTER_S, STALE_AFTER_SCRAPES
from paceline_operator.simulator.fleet.pods import Pod


@dataclass(frozen=True, slots=True)
class Gauges:
    """Of one engine at one moment."""

    running: int
    waiting: int
    batch_waiting: int
    waiting_tokens: int
    kv_usage: float
    kv_capacity_tokens: int

    @classmethod
    def of(cls, pod: Pod, more_waiting: int = 0, more_tokens: int = 0) -> Gauges:
        """Read from an engine that has worked up to now.

        Args:
            pod: Where the engine is.
            more_waiting: Requests that it counts as waiting beside those that do.
            more_tokens: Their prompt tokens.
        """
        engine = pod.engine
        return cls(
            engine.num_running,
            engine.num_waiting + more_waiting,
            engine.num_batch_waiting,
            engine.waiting_tokens + more_tokens,
            engine.kv_usage,
            engine.kv_capacity_tokens,
        )


@dataclass(slots=True)
class Reading:
    """The last answer of one pod: what it was, and when it came."""

    gauges: Gauges
    read_at_s: float


class Scraper:
    """State of one operator's measurements.

    Args:
        interval_s: Between two rounds.
        faults: What goes wrong.

    Attributes:
        slices: What happened in the last 300 s, oldest first.
        readings: By UID of a pod, of those that ever answered.
    """

    def __init__(self, interval_s: float, faults: Faults) -> None:
        self._stale_after_s = STALE_AFTER_SCRAPES * interval_s
        self._faults = faults
        self._merged = Slices()
        self.slices: tuple[Window, ...] = ()
        self.readings: dict[str, Reading] = {}

    def round(self, listed: Iterable[PodView], delivering: Iterable[Pod], now_s: float) -> None:
        """Reads what is delivered of the listed pods; one that is silent keeps its old reading.

        Args:
            listed: The pods that exist; what is not listed by its UID is forgotten.
            delivering: Whose series there are, those of pods that are gone included.
            now_s: The operator's clock.
        """
        uids = {view.uid for view in listed}
        self.readings = {uid: r for uid, r in self.readings.items() if uid in uids}
        known = [pod for pod in delivering if pod.uid in uids]
        grown = [window for pod in known if (window := self._read(pod, now_s)) is not None]
        self.slices = self._merged.append(grown, now_s)

    def _read(self, pod: Pod, now_s: float) -> Window | None:
        known = self.readings.get(pod.uid)
        if known is not None and self._faults.hits(MetricsFrozen, pod.number, now_s):
            since_s, known.read_at_s = known.read_at_s, now_s
            return Window(start_s=since_s, end_s=now_s, pod_seconds=now_s - since_s)
        if not pod.answers(now_s) or self._faults.hits(ScrapesLost, pod.number, now_s):
            return None
        pod.engine.advance(now_s)
        grown = pod.meter.take(now_s)
        kept = self._faults.waiting_kept(pod.number, now_s)
        self.readings[pod.uid] = Reading(Gauges.of(pod, *kept), now_s)
        if known is None or now_s - known.read_at_s > self._stale_after_s:
            return None  # no base line, or one too old to say when it happened
        since_s = known.read_at_s
        share = PodShare(grown.steps, grown.count(Counter.STEPS_AT_BUDGET), grown.slo)
        return replace(grown, start_s=since_s, pod_seconds=now_s - since_s, pods={pod.uid: share})

    def freshness(self, uid: str, now_s: float) -> DataClass:
        """How far a pod's last answer can be trusted."""
        reading = self.readings.get(uid)
        if reading is None or now_s - reading.read_at_s > ABSENT_AFTER_S:
            return DataClass.ABSENT
        is_fresh = now_s - reading.read_at_s <= self._stale_after_s
        return DataClass.FRESH if is_fresh else DataClass.STALE

    def loads(self, now_s: float) -> dict[str, float]:
        """Requests in each engine whose answer is fresh, by UID."""
        return {
            uid: float(reading.gauges.running + reading.gauges.waiting)
            for uid, reading in self.readings.items()
            if self.freshness(uid, now_s) is DataClass.FRESH
        }

    def lost(self, views: Iterable[PodView], now_s: float) -> frozenset[str]:
        """Pods that serve and have not answered for long."""
        return frozenset(
            view.uid
            for view in views
            if view.ready
            and view.uid in self.readings
            and is_lost(self.freshness(view.uid, now_s), view.ready_since_s, now_s)
        )

    def observe(
        self, view: PodView, reports: Mapping[str, PodTunables], now_s: float
    ) -> PodObservation:
        """One pod in the form that the control law reads.

        Args:
            view: The pod as the cluster lists it.
            reports: UID -> what its engine reported of its live values last.
            now_s: The operator's clock.
        """
        data = self.freshness(view.uid, now_s)
        is_known = data is not DataClass.ABSENT
        gauges = self.readings[view.uid].gauges if is_known else _NOTHING
        return PodObservation(
            name=view.name,
            uid=view.uid,
            template_hash=view.template_hash,
            ready=view.ready,
            created_s=view.created_s,
            ready_since_s=view.ready_since_s,
            draining=view.deleting or view.draining_since_s is not None,
            no_room=_no_room(view),
            data=data,
            tunables=reports.get(view.uid),
            running=gauges.running,
            waiting=gauges.waiting,
            batch_waiting=gauges.batch_waiting,
            waiting_tokens=gauges.waiting_tokens,
            kv_usage=gauges.kv_usage,
            kv_capacity_tokens=gauges.kv_capacity_tokens if is_known else None,
        )


_NOTHING = Gauges(0, 0, 0, 0, 0.0, 0)


def _no_room(view: PodView) -> str:
    problem = view.problem
    return problem.message if problem is not None and problem.reason == UNSCHEDULABLE else ""
