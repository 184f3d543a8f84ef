"""What the events about a pod say of one whose containers cannot be made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from paceline_operator.domain.pods import one_line, seconds


@dataclass(frozen=True, slots=True)
class PodEvent:
    """The newest event about a pod.

    Attributes:
        reason: One CamelCase word.
        text: In one line.
        warning: Whether something fails, or merely takes its time.
    """

    reason: str
    text: str
    warning: bool


def newest(items: Iterable[Mapping[str, Any]]) -> PodEvent | None:
    """The newest event, a warning before others of its second; None without any.

    Older ones do not count: a mount that failed once and then worked is none any more.

    Args:
        items: Events as `events.k8s.io/v1` shows them.
    """
    found = max(items, key=_rank, default=None)
    if found is None:
        return None
    return PodEvent(
        reason=str(found.get("reason") or "Unknown"),
        text=one_line(str(found.get("note") or "")),
        warning=found.get("type") == "Warning",
    )


def _rank(item: Mapping[str, Any]) -> tuple[float, bool]:
    series = item.get("series") or {}
    times = (
        series.get("lastObservedTime"),
        item.get("deprecatedLastTimestamp"),
        item.get("eventTime"),
        item["metadata"].get("creationTimestamp"),
    )
    last_s = max((int(found) for each in times if (found := seconds(each)) is not None), default=0)
    return last_s, item.get("type") == "Warning"
