"""Pods that serve and are not measured: when that hides demand, and when it can be estimated.

A pod that misses a reading or a few will tell what it served: until then less is seen than there
is. One that has told nothing for minutes may never: it is taken to serve as much as the others.
"""

from __future__ import annotations

from paceline_operator.autopilot.situation.situation import Situation
from paceline_operator.autopilot.vocabulary import phrases
from paceline_operator.autopilot.vocabulary.decision import Reason, ScalingLimit
from paceline_operator.autopilot.vocabulary.fleet import DataClass

MOST_LOST = 0.2
"""Share of the pods that may be lost, or one pod: of more nobody knows that they serve alike."""


def hides_demand(s: Situation) -> bool:
    """Whether there may be demand that is neither measured nor estimated."""
    lost = {pod.uid for pod in s.fleet.lost}
    unread = (p for p in s.fleet.serving if p.data is not DataClass.FRESH and p.uid not in lost)
    return any(unread) or too_many(s)


def too_many(s: Situation) -> bool:
    """Whether so many pods are lost that what they serve cannot be estimated."""
    return len(s.fleet.lost) > max(1.0, MOST_LOST * len(s.fleet.serving))


def told(s: Situation) -> str:
    """The lost pods, in a sentence."""
    names = ", ".join(pod.name for pod in s.fleet.lost)
    return f"Replicas that have told nothing for minutes: {names}."


def limit(s: Situation) -> ScalingLimit | None:
    """What keeps replicas from being given back, where too many are lost."""
    if not too_many(s):
        return None
    ask = "see MetricsFresh for the cause, or delete them"
    counted = phrases.counted(len(s.fleet.serving), "replica")
    text = f"{told(s)} Of {counted} these are too many to estimate what they serve: {ask}."
    return ScalingLimit(reason=Reason.PODS_UNMEASURED, message=text)
