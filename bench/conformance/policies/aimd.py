"""AIMD on the tail of the gaps between tokens: the budget creeps up and falls back.

Rule: every 10 s, with the p95 gap of the last 10 s within target the budget grows by a fixed
step, above it the budget shrinks by a fixed share; nothing without enough gaps.
Source: the adaptive batching of Clipper (NSDI 2017: additive growth, a tenth off where the target
is missed), put on the token budget; it knows no model and no other signal.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.conformance.policies.cadence import AT_EVERY_SCRAPE, due_after
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation, PodTunables, Tunables
from paceline_operator.autopilot.vocabulary.window import Latency
from paceline_operator.simulator.controller import NOTHING, Orders


@dataclass(frozen=True, slots=True, kw_only=True)
class AimdSettings:
    """Of the rule.

    Attributes:
        quantile: Of the gaps.
        interval_s: Between two moves.
        step: Tokens added.
        factor: What is left of a budget that was too large.
        least_gaps: Fewer of them say nothing.
        aim: Share of the target that the quantile is held to.
    """

    quantile: float = 0.95
    interval_s: float = 10.0
    step: int = 64
    factor: float = 0.9
    least_gaps: int = 100
    aim: float = 1.0


class Aimd:
    """A controller that sets the budget and nothing else.

    Args:
        itl_ms: Target of the gaps.
        settings: Step, share and interval.
    """

    def __init__(self, itl_ms: float, settings: AimdSettings | None = None) -> None:
        self._itl_ms = itl_ms
        self._settings = settings or AimdSettings()
        self._next_due_s = AT_EVERY_SCRAPE

    @property
    def next_due_s(self) -> float:
        """One interval after the last move."""
        return self._next_due_s

    def decide(self, fleet: FleetObservation, now_s: float) -> Orders:
        """One move."""
        s = self._settings
        self._next_due_s = due_after(now_s, s.interval_s)
        knobs = [pod.tunables for pod in fleet.serving if pod.tunables is not None]
        gaps = fleet.last(s.interval_s).histogram(Latency.ITL)
        slowest_s = gaps.quantile(s.quantile)
        if not knobs or slowest_s is None or gaps.samples < s.least_gaps:
            return NOTHING
        before = _agreed(fleet, knobs)
        held = 1e3 * slowest_s <= s.aim * self._itl_ms
        budget = before.max_num_batched_tokens
        after = _on_ladder(budget + s.step if held else s.factor * budget, knobs)
        if after == budget:
            return NOTHING
        wanted = Tunables(
            max_num_batched_tokens=after, max_num_running_seqs=before.max_num_running_seqs
        )
        return Orders(tunables=wanted, reason="AimdUp" if held else "AimdDown")


def _agreed(fleet: FleetObservation, knobs: list[PodTunables]) -> Tunables:
    """What was pushed last, or what the engines started with."""
    return fleet.desired_tunables or Tunables(
        max_num_batched_tokens=min(each.effective for each in knobs),
        max_num_running_seqs=min(each.running_seqs for each in knobs),
    )


def _on_ladder(budget: float, knobs: list[PodTunables]) -> int:
    """The budget that every engine takes, rounded down to their step."""
    step = max(each.step for each in knobs)
    floor = max(each.floor for each in knobs)
    ceiling = min(each.ceiling for each in knobs)
    return min(ceiling, max(floor, int(budget // step) * step))
