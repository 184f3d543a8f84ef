"""Series that a Prometheus server answers with, put together to what each pod reported.

All series of one scrape carry its time, to the digit. A pod that several scrape (two replicas of
a server, or two jobs) has each series once for every one of them: they are told apart by the
labels that the server added, which are those of the process' start time beside the engine's own.

Not all of a scrape need be there at once (remote write): a scrape is read once it is whole, and
what its totals were before is asked of the same answer, which knows what came late.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Self

from paceline_operator.metrics import names
from paceline_operator.metrics.errors import ScrapeError
from paceline_operator.metrics.exposition import Exposition, collect
from paceline_operator.metrics.source import Answer
from paceline_operator.metrics.text_format import Sample

NAME = "__name__"
RENAMED = "exported_"
"""Before the name of an engine's label where the server has one of that name itself."""

Points = Sequence[tuple[float, str]]
"""Time of each scrape in Unix seconds, and the value, oldest first."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series.

    Attributes:
        labels: All of them, the name included.
        points: What it was in the time that was asked about.
    """

    labels: Mapping[str, str]
    points: Points

    def at(self, time_s: float) -> float | None:
        """Value of the scrape at a time, None where it was not part of that."""
        return next((float(text) for at, text in reversed(self.points) if at == time_s), None)

    def until(self, time_s: float) -> float | None:
        """Value of the newest scrape up to a time, None where there is none."""
        return next((float(text) for at, text in reversed(self.points) if at <= time_s), None)


def read_matrix(body: bytes) -> list[Series]:
    """Series of an answer to an instant query with a range selector.

    Raises:
        ScrapeError: It says why there is none, or is no such answer.
    """
    try:
        answer = json.loads(body)
        if answer["status"] != "success":
            raise ScrapeError(f"{answer.get('errorType', 'error')}: {answer.get('error', '')}")
        data = answer["data"]
        if data["resultType"] != "matrix":
            raise ScrapeError(f"a {data['resultType']} where a matrix was asked for")
        return [_series(each) for each in data["result"] if "values" in each]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ScrapeError(f"no answer of a Prometheus server ({type(error).__name__})") from error


def _series(each: Mapping[str, Any]) -> Series:
    labels = {str(name): str(value) for name, value in each["metric"].items()}
    return Series(labels, [(float(at), str(text)) for at, text in each["values"]])


def by_pod(series: Sequence[Series], pod_label: str) -> dict[str, list[Series]]:
    """Series by the name of their pod."""
    found: dict[str, list[Series]] = defaultdict(list)
    for each in series:
        found[each.labels.get(pod_label, "")].append(each)
    return found


def answers(pod: Sequence[Series]) -> tuple[Answer, ...]:
    """The last whole scrape of one pod, by each that scrapes it.

    Raises:
        ScrapeError: None of them holds an engine's metrics.
    """
    found = []
    error = ScrapeError(f"no {names.START_TIME.full_name} among its series")
    for start in pod:
        if start.labels.get(NAME) == names.START_TIME.full_name and start.points:
            try:
                found.append(_answer(_Scraped.found(pod, start)))
            except ScrapeError as unreadable:
                error = unreadable
    if not found:
        raise error
    return tuple(found)


def _answer(scraped: _Scraped) -> Answer:
    read_at_s = scraped.whole_at_s
    return Answer(
        exposition=collect(scraped.samples(read_at_s, read_at_s)),
        read_at_s=read_at_s,
        origin=",".join(f"{name}={value}" for name, value in sorted(scraped.target.items())),
        earlier=partial(_earlier, scraped, read_at_s),
    )


def _earlier(scraped: _Scraped, read_at_s: float, time_s: float) -> Exposition | None:
    """What the totals of a scrape were before, from the same series and what came late of them.

    A series that was not there at all yet counts from 0; one that the scrape lacks is left out
    here too, or its whole total would be taken for growth once it is back.
    """
    if scraped.start.until(time_s) is None:
        return None
    try:
        return collect(scraped.samples(read_at_s, time_s))
    except ScrapeError:
        return None


@dataclass(frozen=True, slots=True)
class _Scraped:
    """Series of one pod by one that scrapes it.

    Attributes:
        target: Labels that the server added.
        start: The process' start time: it is part of every scrape.
        series: All of them.
    """

    target: Mapping[str, str]
    start: Series
    series: Sequence[Series]

    @classmethod
    def found(cls, pod: Sequence[Series], start: Series) -> Self:
        """Those that carry the labels of a start time."""
        own = {NAME, *names.START_TIME.labels}
        target = {name: value for name, value in start.labels.items() if name not in own}
        added = target.items()
        return cls(target, start, [each for each in pod if added <= each.labels.items()])

    @property
    def whole_at_s(self) -> float:
        """The newest scrape that has all series of the one before.

        A store that is written to over the network takes series one by one; the newest scrape
        may be there in part. What an engine ceased to report costs one scrape of waiting.
        """
        times = [at for at, _ in self.start.points]
        for before_s, time_s in reversed(list(pairwise(times))):
            there = (each for each in self.series if each.at(before_s) is not None)
            if all(each.at(time_s) is not None for each in there):
                return time_s
        return times[0]

    def samples(self, read_at_s: float, time_s: float) -> Iterator[Sample]:
        """What the series of one scrape were at a time."""
        for each in self.series:
            value = None if each.at(read_at_s) is None else each.until(time_s)
            if value is not None:
                yield each.labels.get(NAME, ""), _own(each.labels, self.target), value


def _own(labels: Mapping[str, str], target: Mapping[str, str]) -> dict[str, str]:
    """The labels that the engine gave."""
    own = {name: value for name, value in labels.items() if name not in target}
    for name in target:
        if RENAMED + name in own:
            own[name] = own.pop(RENAMED + name)
    return own
