"""Of several objectives on one metric, the one that the model goes by."""

from __future__ import annotations

from collections.abc import Sequence

from paceline_operator.autopilot.measurement.attainment import measure
from paceline_operator.autopilot.vocabulary.decision import SloMeasurement
from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.autopilot.vocabulary.window import Window

TAIL = 90
"""Percentile from which on an objective is about nearly every sample."""
USUAL_SHARE = 0.95


def strictest_ms(objectives: Sequence[Objective]) -> float | None:
    """Strictest target, those on the tail first; None without objectives."""
    return min((float(each.target_ms) for each in _of_the_tail(objectives)), default=None)


def binding_share(objectives: Sequence[Objective]) -> float:
    """Share of samples that must hold that target, 0..1."""
    found = _of_the_tail(objectives)
    strictest = min(found, key=lambda o: (o.target_ms, -o.percentile), default=None)
    return USUAL_SHARE if strictest is None else strictest.share


def is_missed(objectives: Sequence[Objective], window: Window) -> bool:
    """Whether the measurements of a window prove that one of them is missed."""
    measured: list[SloMeasurement] = [measure(each, window) for each in objectives]
    return any(each.met is False for each in measured)


def _of_the_tail(objectives: Sequence[Objective]) -> tuple[Objective, ...]:
    """What the model may take for a bound on nearly every sample.

    A median says nothing about the tail: where both are wanted, measurement watches over it.
    """
    tail = tuple(each for each in objectives if each.percentile >= TAIL)
    return tail or tuple(objectives)
