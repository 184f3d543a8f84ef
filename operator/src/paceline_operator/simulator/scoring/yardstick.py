"""What makes a request a good one, and a sample a good one for an objective."""

from __future__ import annotations

from collections.abc import Iterable

from paceline_operator.api.v1alpha1 import SloMetric
from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.simulator.metering.target import longest_s
from paceline_operator.simulator.scoring.outcome import Outcome


def itl_targets_ms(objectives: Iterable[Objective]) -> tuple[int, ...]:
    """The ITL targets of both tiers that gaps are compared with, increasing, each once."""
    return tuple(sorted({o.target_ms for o in objectives if o.metric is SloMetric.ITL}))


def percentile_met(percentile: int, gaps: int, late_gaps: int) -> bool:
    """Whether the percentile (nearest rank) of a request's own gaps is within the target."""
    return gaps - late_gaps >= -(-percentile * gaps // 100)


class Yardstick:
    """Judges outcomes by objectives.

    Args:
        objectives: Of both tiers.
    """

    def __init__(self, objectives: Iterable[Objective]) -> None:
        given = tuple(objectives)
        self._targets_ms = itl_targets_ms(given)
        self._ttft = [(o.tier, longest_s(o.target_ms)) for o in given if o.metric is SloMetric.TTFT]
        self._itl = [o for o in given if o.metric is SloMetric.ITL]

    def goodput(self, outcome: Outcome) -> tuple[int, int]:
        """Good and all requests, of this one alone: itself, judged as engines do.

        A good one is whole, its first token met every TTFT target of its tier, and its own
        gaps every ITL target at that objective's percentile.
        """
        return int(self._is_good(outcome)), 1

    def samples(self, objective: Objective, outcome: Outcome) -> tuple[int, int]:
        """Good and all samples that a request is for one of the objectives.

        Gaps count for ITL, and requests for the others: one that was refused, failed, given up
        or not finished has missed. A whole answer of one token has no TPOT.
        """
        if outcome.tier != objective.tier:
            return 0, 0
        if objective.metric is SloMetric.ITL:
            return outcome.gaps - self._late(objective, outcome), outcome.gaps
        latency_s = _latency_s(objective.metric, outcome)
        if latency_s is None:
            return 0, int(objective.metric is not SloMetric.TPOT or not outcome.completed)
        return int(latency_s <= longest_s(objective.target_ms)), 1

    def _is_good(self, outcome: Outcome) -> bool:
        tier, ttft_s = outcome.tier, outcome.ttft_s
        if ttft_s is None or not outcome.completed:
            return False
        if any(ttft_s > limit_s for of, limit_s in self._ttft if of == tier):
            return False
        return all(
            percentile_met(o.percentile, outcome.gaps, self._late(o, outcome))
            for o in self._itl
            if o.tier == tier
        )

    def _late(self, objective: Objective, outcome: Outcome) -> int:
        if not outcome.gaps:
            return 0
        return outcome.late_gaps[self._targets_ms.index(objective.target_ms)]


def _latency_s(metric: SloMetric, outcome: Outcome) -> float | None:
    if metric is SloMetric.TTFT:
        return outcome.ttft_s
    return outcome.e2e_s if metric is SloMetric.E2E else outcome.tpot_s
