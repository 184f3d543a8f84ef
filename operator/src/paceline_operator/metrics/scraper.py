"""Reads all pods of a fleet at once and cuts their counters into slices of time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

from paceline_operator.autopilot.fleet import DataClass
from paceline_operator.autopilot.slices import Slices
from paceline_operator.autopilot.window import INTERACTIVE, Window
from paceline_operator.metrics import names
from paceline_operator.metrics.errors import ScrapeError
from paceline_operator.metrics.exposition import BATCH, Exposition, Totals, parse
from paceline_operator.metrics.increase import increase

SCRAPE_INTERVAL_S = 5.0
STALE_AFTER_S = 3 * SCRAPE_INTERVAL_S
ABSENT_AFTER_S = 300.0

Fetch = Callable[[str], Awaitable[str]]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A pod to read.

    Attributes:
        uid: Pod UID; another UID is another pod, whatever its address.
        url: Of its `/metrics`.
        current: Whether it runs the current template; only then its steps are learned from.
    """

    uid: str
    url: str
    current: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PodReading:
    """What is known of one pod, as old as `read_at_s`.

    Attributes:
        data: Freshness; gauges are the last known ones, or 0 where absent.
        read_at_s: Last time it answered, None for never.
        error: Why the last attempt failed, empty where it did not.
        batch_waiting: Part of `waiting` that is of the batch tier.
        waiting_tokens: Of the interactive tier.
    """

    data: DataClass
    read_at_s: float | None = None
    error: str = ""
    started_s: float = 0.0
    running: int = 0
    waiting: int = 0
    batch_waiting: int = 0
    waiting_tokens: int = 0
    kv_usage: float = 0.0
    kv_capacity_tokens: int | None = None
    max_num_batched_tokens: int = 0
    max_num_running_seqs: int = 0
    tunables_revision: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """Result of one round.

    Attributes:
        pods: One reading for each target, by UID.
        slices: What happened in the last 300 s, oldest first; a round in which no pod
            answered leaves a gap, or a longer slice after it.
    """

    pods: Mapping[str, PodReading]
    slices: tuple[Window, ...]


@dataclass(slots=True)
class _Pod:
    """The last answer of one pod."""

    exposition: Exposition | None = None
    read_at_s: float | None = None
    error: str = ""


class Scraper:
    """State of one fleet's measurements; not for concurrent use.

    Args:
        fetch: Returns the text behind a URL, or raises `ScrapeError`; must time out.
    """

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._pods: dict[str, _Pod] = {}
        self._slices = Slices()

    async def scrape(self, targets: Iterable[Target], now_s: float) -> Scrape:
        """Reads all targets in parallel; one that fails only keeps its old reading.

        Args:
            targets: All pods with an address; what is not listed is forgotten.
            now_s: The operator's clock; must not go back between calls.
        """
        wanted = {target.uid: target for target in targets}
        self._pods = {uid: self._pods.get(uid) or _Pod() for uid in wanted}
        rounds = (self._read(target, now_s) for target in wanted.values())
        grown = [g for g in await asyncio.gather(*rounds) if g is not None]
        slices = self._slices.append(grown, now_s)
        readings = {uid: _reading(pod, now_s) for uid, pod in self._pods.items()}
        return Scrape(pods=readings, slices=slices)

    async def _read(self, target: Target, now_s: float) -> Window | None:
        pod = self._pods[target.uid]
        try:
            exposition = parse(await self._fetch(target.url))
        except ScrapeError as error:
            _log.debug("pod %s gave no metrics: %s", target.uid, error)
            pod.error = str(error)
            return None
        before, since_s = pod.exposition, pod.read_at_s
        pod.exposition, pod.read_at_s, pod.error = exposition, now_s, ""
        if before is None or since_s is None or now_s - since_s > STALE_AFTER_S:
            return None  # no base line, or one too old to say when it happened
        return _window(increase(before, exposition), target, since_s, now_s)


def _window(grown: Totals, target: Target, start_s: float, end_s: float) -> Window:
    return Window(
        start_s=start_s,
        end_s=end_s,
        pod_seconds=end_s - start_s,
        steps=grown.steps if target.current else {},
        counters=grown.counters,
        histograms=grown.histograms,
        batch=grown.batch,
        slo=grown.slo,
    )


def _freshness(pod: _Pod, now_s: float) -> DataClass:
    if pod.read_at_s is None or now_s - pod.read_at_s > ABSENT_AFTER_S:
        return DataClass.ABSENT
    return DataClass.FRESH if now_s - pod.read_at_s <= STALE_AFTER_S else DataClass.STALE


def _reading(pod: _Pod, now_s: float) -> PodReading:
    data, seen = _freshness(pod, now_s), pod.exposition
    if seen is None or data is DataClass.ABSENT:
        return PodReading(data=DataClass.ABSENT, read_at_s=pod.read_at_s, error=pod.error)
    return PodReading(
        data=data,
        read_at_s=pod.read_at_s,
        error=pod.error,
        started_s=seen.started_s,
        running=int(seen.gauge(names.REQUESTS_RUNNING)),
        waiting=int(seen.gauge(names.REQUESTS_WAITING)),
        batch_waiting=int(seen.gauge(names.REQUESTS_WAITING, BATCH)),
        waiting_tokens=int(seen.gauge(names.WAITING_TOKENS, INTERACTIVE)),
        kv_usage=seen.gauge(names.KV_USAGE),
        kv_capacity_tokens=seen.kv_capacity_tokens,
        max_num_batched_tokens=int(seen.gauge(names.MAX_BATCHED_TOKENS)),
        max_num_running_seqs=int(seen.gauge(names.MAX_RUNNING_SEQS)),
        tunables_revision=int(seen.gauge(names.TUNABLES_REVISION)),
    )
