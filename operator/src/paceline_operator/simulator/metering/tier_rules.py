"""The objectives of one tier that came into force together, and the requests they judge."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from paceline_operator.api.v1alpha1 import SloMetric
from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.simulator.metering.deadline import Deadline
from paceline_operator.simulator.metering.sample_counts import SampleCounts
from paceline_operator.simulator.sink import Served


def _has_begun(served: Served) -> bool:
    return served.first_s is not None or served.ended_s < inf


def _has_ended(served: Served) -> bool:
    return served.ended_s < inf


class TierRules:
    """Feeds each objective its samples, exactly once each.

    Args:
        found: The objectives with their samples.
    """

    def __init__(self, found: Iterable[tuple[Objective, SampleCounts]]) -> None:
        def of(metric: SloMetric) -> list[SampleCounts]:
            return [samples for objective, samples in given if objective.metric is metric]

        given = tuple(found)
        self._ttft = [Deadline(samples, _has_begun) for samples in of(SloMetric.TTFT)]
        self._e2e = [Deadline(samples, _has_ended) for samples in of(SloMetric.E2E)]
        self._tpot = of(SloMetric.TPOT)
        self._deadlines = (*self._ttft, *self._e2e)
        self._requests = [*of(SloMetric.TTFT), *of(SloMetric.E2E), *self._tpot]

    def refuse(self) -> None:
        """A request was turned away."""
        for samples in self._requests:
            samples.add(0, 1)

    def begin(self, served: Served) -> None:
        """A request was admitted."""
        for deadline in self._deadlines:
            deadline.begin(served)

    def start(self, served: Served, first_s: float) -> None:
        """Its first token came."""
        for deadline in self._ttft:
            deadline.meet(served, first_s)

    def complete(self, served: Served, ended_s: float, tpot_s: float | None) -> None:
        """Its answer is whole; `tpot_s` is None where that has one token."""
        for deadline in self._e2e:
            deadline.meet(served, ended_s)
        if tpot_s is not None:
            for samples in self._tpot:
                samples.judge(tpot_s)

    def abandon(self, served: Served, ended_s: float, *, is_error: bool) -> None:
        """It ended without a whole answer.

        A client that left in time makes no sample; an error of ours is bad.
        """
        awaited = self._deadlines if served.first_s is None else self._e2e
        for deadline in awaited:
            if is_error:
                deadline.fail(served)
            else:
                deadline.withdraw(served, ended_s)
        if is_error:
            for samples in self._tpot:
                samples.add(0, 1)

    def started_late(self, served: Served, by_s: float) -> bool:
        """Whether the first token missed a target, or will: it had not come at `by_s`."""
        first_s = by_s if served.first_s is None else served.first_s
        return any(deadline.is_late(served, first_s) for deadline in self._ttft)

    def expire(self, now_s: float) -> None:
        """Counts what has become late by now."""
        for deadline in self._deadlines:
            deadline.expire(now_s)
