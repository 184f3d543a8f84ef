"""Dynamo's throughput-based rule: what one engine carries at the targets, demand over that.

Rule: every 180 s, the next interval's requests, prompt and answer are forecast; replicas =
ceil(forecast requests per second / requests per second of one engine at the targets). Nothing
without traffic or regression. With the load-based rule beside it the answer is only its floor.
How much of that rate is counted on is our addition: Dynamo has no setting that trades replicas
for latency but the targets, which hardly move the rate.
Source: NVIDIA Dynamo, `planner/core/throughput_scaling.py` (mode `agg`, on by default),
`throughput_adjustment_interval` 180 s.
"""

from __future__ import annotations

from math import ceil

from bench.conformance.policies.cadence import AT_EVERY_SCRAPE, EARLY_S
from bench.conformance.policies.dynamo_engine import (
    DynamoEngine,
    Latencies,
    Shape,
    capabilities,
    shape_of,
)
from bench.conformance.policies.dynamo_load import DynamoLoad
from bench.conformance.policies.local_trend import LocalTrend
from bench.conformance.policies.site import ReplicaBounds
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.autopilot.vocabulary.window import Counter, Latency
from paceline_operator.simulator.controller import NOTHING, Orders

INTERVAL_S = 180.0


class DynamoThroughput:
    """A controller after the throughput-based loop, alone or as the floor of the other.

    Args:
        targets: Of TTFT and ITL.
        bounds: `min_endpoint` and what the GPU budget allows.
        load: The load-based rule, None where it is off, as by default.
        counted_on: Share of the rate at the targets that is counted on; Dynamo counts on all.
        interval_s: `throughput_adjustment_interval`.
    """

    def __init__(
        self,
        targets: Latencies,
        bounds: ReplicaBounds,
        load: DynamoLoad | None = None,
        counted_on: float = 1.0,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._targets = targets
        self._bounds = bounds
        self._load = load
        self._counted_on = counted_on
        self._interval_s = interval_s
        self._engine = DynamoEngine() if load is None else load.engine
        self._requests, self._prompt, self._answer = LocalTrend(), LocalTrend(), LocalTrend()
        self._began_s: float | None = None
        self._floor = bounds.least

    @property
    def next_due_s(self) -> float:
        """Every scrape, so that the regression misses no step."""
        return AT_EVERY_SCRAPE

    def decide(self, fleet: FleetObservation, now_s: float) -> Orders:
        """Learns; forecasts where an interval is over; asks the other rule."""
        self._engine.observe(fleet)
        began_s = now_s if self._began_s is None else self._began_s
        over = now_s - began_s >= self._interval_s - EARLY_S
        self._began_s = now_s if over else began_s
        forecast = self._forecast(fleet) if over else None
        wanted = forecast if self._load is None else self._above_floor(fleet, forecast)
        if wanted is None or self._bounds.clamp(wanted) == fleet.desired_replicas:
            return NOTHING
        return Orders(replicas=self._bounds.clamp(wanted), reason="DynamoThroughput")

    def _above_floor(self, fleet: FleetObservation, forecast: int | None) -> int | None:
        if forecast is not None:
            self._floor = self._bounds.clamp(forecast)
        asked = self._load.wanted(fleet) if self._load is not None else None
        return None if asked is None else max(asked, self._floor)

    def _forecast(self, fleet: FleetObservation) -> int | None:
        """Replicas for the next interval."""
        window = fleet.last(self._interval_s)
        seen = shape_of(window, window.histogram(Latency.GENERATION_TOKENS).mean)
        self._requests.add(window.count(Counter.REQUESTS_RECEIVED))
        self._prompt.add(seen.prompt)
        self._answer.add(seen.answer)
        rps = self._engine_rps(fleet, seen.hit_rate)
        if not rps or not window.length_s:
            return None
        offered_rps = self._requests.next() / window.length_s
        return max(1, ceil(offered_rps / (self._counted_on * rps)))

    def _engine_rps(self, fleet: FleetObservation, hit_rate: float) -> float:
        model, engine = self._engine.model, capabilities(fleet)
        if model is None or engine is None:
            return 0.0
        prompt, answer = self._prompt.next(), self._answer.next()
        shape = Shape(prompt=prompt, answer=answer, hit_rate=hit_rate)
        return model.best_rps(shape, engine, self._targets)
