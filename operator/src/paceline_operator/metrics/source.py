"""What a source of metrics is asked and answers, whether it reads pods or a Prometheus server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from paceline_operator.metrics.errors import ScrapeError
from paceline_operator.metrics.exposition import Exposition


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A pod to read.

    Attributes:
        uid: Pod UID; another UID is another pod, whatever its address.
        url: Of its `/metrics`.
        namespace: Of the pod.
        name: Of the pod.
        current: Whether it runs the current template; only then its steps are learned from.
    """

    uid: str
    url: str
    namespace: str = ""
    name: str = ""
    current: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One pod's metrics.

    Attributes:
        exposition: What it reported.
        read_at_s: When it reported that, on the operator's clock.
        origin: Who read it; counters are subtracted within one origin only.
        earlier: What the same totals were at an earlier time, as far as that is known by now,
            None where it is not. Absent where an answer is whole when it is given: then the
            answer of that time says it.
    """

    exposition: Exposition
    read_at_s: float
    origin: str = ""
    earlier: Callable[[float], Exposition | None] | None = None


PodAnswers = tuple[Answer, ...] | ScrapeError
"""What one pod reported, from each origin that has read it, or why that is not known."""

Answers = Mapping[str, PodAnswers]
"""The same by UID."""


class Source(Protocol):
    """Reads the pods of one fleet; one object serves all fleets."""

    interval_s: float
    """Time between two rounds, in which every pod has something new to tell."""

    async def read(self, targets: Sequence[Target], now_s: float) -> Answers:
        """Reads all targets at once; a pod that gives nothing is an error of its own.

        Args:
            targets: Pods of one namespace.
            now_s: The operator's clock.
        """
        ...
