"""Reads all pods of a fleet at once and cuts their counters into slices of time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from paceline_operator.autopilot.vocabulary.fleet import DataClass
from paceline_operator.autopilot.vocabulary.window import (
    BATCH,
    INTERACTIVE,
    Counter,
    PodShare,
    Window,
)
from paceline_operator.metrics import names
from paceline_operator.metrics.booking import Booking
from paceline_operator.metrics.direct import SCRAPE_INTERVAL_S
from paceline_operator.metrics.errors import ScrapeError
from paceline_operator.metrics.exposition import (
    ALL_JUDGED,
    Exposition,
    Judged,
    Totals,
    without_unjudged,
)
from paceline_operator.metrics.increase import increase
from paceline_operator.metrics.source import Answer, PodAnswers, Source, Target

STALE_AFTER_INTERVALS = 3
STALE_AFTER_S = STALE_AFTER_INTERVALS * SCRAPE_INTERVAL_S
ABSENT_AFTER_S = 300.0


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
            answered leaves a gap, or a longer slice after it. They tell of the time in which it
            happened: where a server reads the pods, they end as long ago as it has read the
            first of them.
    """

    pods: Mapping[str, PodReading]
    slices: tuple[Window, ...]


@dataclass(slots=True)
class _Pod:
    """The last answer of one pod, as far as objectives asked for its latencies by then."""

    judged: Judged = ALL_JUDGED
    exposition: Exposition | None = None
    read_at_s: float | None = None
    origin: str = ""
    error: str = ""

    def is_news(self, answer: Answer) -> bool:
        """Whether it is later than what is known, if only by the clock of another origin."""
        return self.read_at_s is None or answer.read_at_s > self.read_at_s

    def base_line(self, answer: Answer, stale_after_s: float) -> Exposition | None:
        """What an answer's counters grew from; None where that is unknown or long ago."""
        if self.read_at_s is None or self.origin != answer.origin:
            return None
        if answer.read_at_s - self.read_at_s > stale_after_s:
            return None
        return self.exposition if answer.earlier is None else answer.earlier(self.read_at_s)

    def take(self, answer: Answer, judged: Judged) -> None:
        """Keep an answer in place of the one before."""
        seen = answer.exposition
        self.exposition = replace(seen, totals=without_unjudged(seen.totals, judged))
        self.judged, self.read_at_s = judged, answer.read_at_s
        self.origin = answer.origin


class Scraper:
    """State of one fleet's measurements; not for concurrent use.

    Args:
        source: Where pods are read.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._pods: dict[str, _Pod] = {}
        self._booking = Booking()
        self._judged = ALL_JUDGED

    def judge(self, judged: Judged) -> None:
        """Keep of latencies, from now on, only those that objectives are about."""
        self._judged = judged

    async def scrape(self, targets: Iterable[Target], now_s: float) -> Scrape:
        """Reads all targets in parallel; one that fails only keeps its old reading.

        Args:
            targets: All pods with an address; what is not listed is forgotten.
            now_s: The operator's clock; must not go back between calls.
        """
        wanted = {target.uid: target for target in targets}
        self._pods = {uid: self._pods.get(uid) or _Pod() for uid in wanted}
        answers = await self._source.read(tuple(wanted.values()), now_s) if wanted else {}
        rounds = (self._take(target, answers[uid], now_s) for uid, target in wanted.items())
        slices = self._booking.append([each for each in rounds if each is not None], now_s)
        stale_after_s = self._stale_after_s
        readings = {uid: _reading(pod, now_s, stale_after_s) for uid, pod in self._pods.items()}
        return Scrape(pods=readings, slices=slices)

    @property
    def _stale_after_s(self) -> float:
        return STALE_AFTER_INTERVALS * self._source.interval_s

    def _take(self, target: Target, found: PodAnswers, now_s: float) -> Window | None:
        """Keeps what a pod reported; returns its growth since the answer before."""
        pod = self._pods[target.uid]
        if isinstance(found, ScrapeError):
            pod.error = str(found)
            return None
        pod.error = ""
        answer = _chosen(found, pod.origin, now_s - self._stale_after_s)
        if not pod.is_news(answer):
            return None
        before, since_s = pod.base_line(answer, self._stale_after_s), pod.read_at_s
        # What was not kept of the answer before has an unknown growth, not all of what there is.
        known = pod.judged & self._judged
        pod.take(answer, self._judged)
        if before is None or since_s is None:
            return None
        grown = without_unjudged(increase(before, answer.exposition), known)
        return _window(grown, target, since_s, answer.read_at_s)


def _chosen(answers: tuple[Answer, ...], origin: str, not_before_s: float) -> Answer:
    """The answer of the origin read so far while it is fresh, else the newest of all.

    Clocks of two that read the same pod differ: between them counters would seem to fall.
    """
    for answer in answers:
        if answer.origin == origin and answer.read_at_s >= not_before_s:
            return answer
    return max(answers, key=lambda answer: (answer.read_at_s, answer.origin))


def _window(grown: Totals, target: Target, start_s: float, end_s: float) -> Window:
    steps = grown.steps if target.current else {}
    share = PodShare(steps, grown.counters.get(Counter.STEPS_AT_BUDGET, 0.0), grown.slo)
    return Window(
        start_s=start_s,
        end_s=end_s,
        pod_seconds=end_s - start_s,
        steps=steps,
        counters=grown.counters,
        histograms=grown.histograms,
        batch=grown.batch,
        slo=grown.slo,
        pods={target.uid: share},
    )


def _freshness(pod: _Pod, now_s: float, stale_after_s: float) -> DataClass:
    if pod.read_at_s is None or now_s - pod.read_at_s > ABSENT_AFTER_S:
        return DataClass.ABSENT
    return DataClass.FRESH if now_s - pod.read_at_s <= stale_after_s else DataClass.STALE


def _reading(pod: _Pod, now_s: float, stale_after_s: float) -> PodReading:
    data, seen = _freshness(pod, now_s, stale_after_s), pod.exposition
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
