"""Why pods are not measured, in one line; and the log, which tells it once."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping

from paceline_operator.domain.pods import PodView
from paceline_operator.kube.store import Key
from paceline_operator.metrics import PodReading

log = logging.getLogger(__name__)

MOST_CHARACTERS = 300


def cause(
    fleet: Iterable[PodView], readings: Mapping[str, PodReading], ready_before_s: float
) -> str:
    """The most frequent cause among pods that serve and gave no metrics; empty without one.

    Args:
        fleet: All pods.
        readings: What is known of them by the last round, by UID.
        ready_before_s: Pods that became ready later do not count: whoever reads metrics may
            not know them yet.
    """
    serving = [pod for pod in fleet if pod.serving and (pod.ready_since_s or 0.0) <= ready_before_s]
    errors = {p.name: readings[p.uid].error for p in serving if p.uid in readings}
    failed = {name: error for name, error in sorted(errors.items()) if error}
    if not failed:
        return ""
    error, count = Counter(failed.values()).most_common(1)[0]
    where = f"{len(failed)} of {len(serving)} pods are not measured"
    if count < len(serving):
        first = next(name for name, each in failed.items() if each == error)
        where += f" ({first}{' and others' if len(failed) > 1 else ''})"
    return f"{where}: {' '.join(error.split())}"[:MOST_CHARACTERS]


class Unmeasured:
    """Tells the log of each cause once, however many objects it is the cause of."""

    def __init__(self) -> None:
        self._causes: dict[Key, str] = {}

    def note(self, key: Key, found: str) -> None:
        """What holds of one object now, empty where its pods are measured."""
        before = self._causes.get(key, "")
        if _what(found) == _what(before):
            return
        is_told = _what(found) in map(_what, self._causes.values())
        self.forget(key)
        if found:
            self._causes[key] = found
            log.log(logging.DEBUG if is_told else logging.WARNING, "%s/%s: %s", *key, found)
        elif _what(before) not in map(_what, self._causes.values()):
            log.info("%s/%s: measured again, after: %s", *key, before)

    def forget(self, key: Key) -> None:
        """The object is gone, or its cause is."""
        self._causes.pop(key, None)


def _what(found: str) -> str:
    """The cause itself, without how many pods of an object it concerns."""
    return found.partition(": ")[2]
