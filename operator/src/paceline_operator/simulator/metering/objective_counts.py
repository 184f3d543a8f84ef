"""Exact samples of every objective, counted as engines count them.

A request counts once per TTFT, TPOT and E2E objective: bad at the moment it becomes late (also
while it still waits), when it is refused, or when it ends late; good when it made it. It is
judged by the objectives of its tier that were in force when it came. ITL counts gaps; a refused
request adds none. Unlike in an engine, gaps go by the objectives in force when they end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from paceline_operator.api.v1alpha1 import SloMetric, Tier
from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.autopilot.vocabulary.window import SloCounts, slo_key
from paceline_operator.simulator.metering.sample_counts import SampleCounts
from paceline_operator.simulator.metering.tier_rules import TierRules
from paceline_operator.simulator.scoring.yardstick import itl_targets_ms, percentile_met
from paceline_operator.simulator.sink import Served


@dataclass(frozen=True, slots=True)
class _Era:
    """Rules by tier, and since when they are in force."""

    since_s: float
    rules: Mapping[str, TierRules]


@dataclass(frozen=True, slots=True)
class _Pace:
    """An ITL objective: its samples, and where a request's late gaps are counted for it."""

    samples: SampleCounts
    percentile: int
    place: int

    def is_met(self, served: Served, open_gap_s: float | None) -> bool:
        """Whether the request's own percentile is within the target."""
        late = served.late_gaps[self.place] if served.gaps else 0
        is_open = self.is_late(open_gap_s)
        return percentile_met(self.percentile, served.gaps + is_open, late + is_open)

    def is_late(self, gap_s: float | None) -> bool:
        """Whether there was a gap, and it was late."""
        return gap_s is not None and gap_s > self.samples.limit_s


class ObjectiveCounts:
    """SampleCounts since the last `take`.

    Attributes:
        itl_targets_ms: Targets that the gaps of each request are compared with.
        itl_limits_s: The longest gaps that meet ITL targets.
    """

    def __init__(self, objectives: Sequence[Objective]) -> None:
        self._samples: dict[str, SampleCounts] = {}
        self._eras: list[_Era] = []
        self.replace(objectives, float("-inf"))

    def replace(self, objectives: Sequence[Objective], now_s: float) -> None:
        """Puts other objectives in force; the samples of those before stay."""
        found = [(o, self._samples.setdefault(_key(o), SampleCounts(o))) for o in objectives]
        targets_ms = itl_targets_ms(objectives)
        self._paces = {
            tier.value: [
                _Pace(samples, o.percentile, targets_ms.index(o.target_ms))
                for o, samples in found
                if o.tier is tier and o.metric is SloMetric.ITL
            ]
            for tier in Tier
        }
        rules = {
            tier.value: TierRules((o, samples) for o, samples in found if o.tier is tier)
            for tier in Tier
        }
        self._eras.append(_Era(now_s, rules))
        self.itl_targets_ms = targets_ms
        self.itl_limits_s = tuple(
            sorted({pace.samples.limit_s for paces in self._paces.values() for pace in paces})
        )

    def refuse(self, tier: str) -> None:
        """A request was turned away."""
        self._eras[-1].rules[tier].refuse()

    def begin(self, served: Served) -> None:
        """A request was admitted."""
        self._rules(served).begin(served)

    def start(self, served: Served, first_s: float) -> None:
        """Its first token came."""
        self._rules(served).start(served, first_s)

    def complete(self, served: Served, tpot_s: float | None) -> bool:
        """Its answer is whole; returns whether it met every TTFT and ITL objective."""
        rules = self._rules(served)
        rules.complete(served, served.ended_s, tpot_s)
        return not self._is_late(rules, served, None)

    def abandon(self, served: Served, *, is_error: bool) -> bool:
        """It ended without a whole answer; returns whether it counts as missed.

        The gap that it died in counts where that was late already.
        """
        rules = self._rules(served)
        rules.abandon(served, served.ended_s, is_error=is_error)
        open_gap_s = None if served.last_s is None else served.ended_s - served.last_s
        for pace in self._paces[served.request.tier]:
            if pace.is_late(open_gap_s):
                pace.samples.add(0, 1)
        return is_error or self._is_late(rules, served, open_gap_s)

    def gap(self, tier: str, gap_s: float) -> None:
        """One gap between two tokens of a request."""
        for pace in self._paces[tier]:
            pace.samples.judge(gap_s)

    def gaps(self, tier: str, total: int, within: Callable[[float], int]) -> None:
        """Many gaps.

        Args:
            tier: Of their requests.
            total: How many.
            within: How many of them are no longer than a time.
        """
        for pace in self._paces[tier]:
            good = within(pace.samples.limit_s)
            pace.samples.add(good, total - good)

    def expire(self, now_s: float) -> None:
        """Counts the requests that have become late by now."""
        for era in self._eras:
            for rules in era.rules.values():
                rules.expire(now_s)

    def take(self) -> dict[str, SloCounts]:
        """What was counted, by `slo_key`; it is then forgotten."""
        return {key: samples.take() for key, samples in self._samples.items()}

    def _rules(self, served: Served) -> TierRules:
        era = self._eras[-1]
        if served.received_s < era.since_s:
            era = next(e for e in reversed(self._eras) if e.since_s <= served.received_s)
        return era.rules[served.request.tier]

    def _is_late(self, rules: TierRules, served: Served, open_gap_s: float | None) -> bool:
        paces = self._paces[served.request.tier]
        return rules.started_late(served, served.ended_s) or not all(
            pace.is_met(served, open_gap_s) for pace in paces
        )


def _key(objective: Objective) -> str:
    return slo_key(objective.name, objective.metric, objective.target_ms, objective.tier)
