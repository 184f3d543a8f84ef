"""Dynamo's load-based rule: predicted latencies of single engines, one replica at a time.

Rule: every 5 s, one replica more where TTFT, or ITL, is predicted above target on all engines;
one less where, with queue and KV load of N spread over N - 1, every engine's queue still takes
less than 80 % of what the target leaves after a request's own prompt, ITL stays below 80 % of
its target, and the KV cache still fits. Nothing while a replica is on its way, an engine does
not report, or the regression is not there.
Source: NVIDIA Dynamo, `planner/core/load_scaling.py` (`optimization_target: sla`, mode `agg`);
`load_scaling_down_sensitivity` 80, `load_adjustment_interval` 5 s.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.conformance.policies.cadence import AT_EVERY_SCRAPE, due_after
from bench.conformance.policies.dynamo_engine import (
    SHAPE_WINDOW_S,
    Capabilities,
    DynamoEngine,
    EngineModel,
    Latencies,
    Shape,
    capabilities,
    shape_of,
)
from bench.conformance.policies.gauge import existing, reporting
from bench.conformance.policies.site import ReplicaBounds
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation, PodObservation
from paceline_operator.simulator.controller import NOTHING, Orders


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    """Of the rule.

    Attributes:
        interval_s: `load_adjustment_interval`.
        sensitivity: `load_scaling_down_sensitivity`, as a share.
    """

    interval_s: float = 5.0
    sensitivity: float = 0.80


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadView:
    """What the rule is evaluated on.

    Attributes:
        model: Of an engine.
        shape: Of the requests lately.
        engine: What engines were started with.
        targets: Of TTFT and ITL.
        sensitivity: Share of the targets that scale-in leaves.
    """

    model: EngineModel
    shape: Shape
    engine: Capabilities
    targets: Latencies
    sensitivity: float

    def expected(self, pod: PodObservation) -> Latencies:
        """Of a request that the pod gets now."""
        kv_tokens = _kv_tokens(pod)
        budget = self.engine.budget
        return Latencies(
            ttft_ms=self.model.ttft_ms(pod.waiting_tokens, kv_tokens, budget, self.shape),
            itl_ms=self.model.itl_ms(kv_tokens),
        )

    def holds(self, pod: PodObservation, denser: float) -> bool:
        """Whether the pod would stand its load and its share of one that is gone."""
        kv_tokens, budget = _kv_tokens(pod) * denser, self.engine.budget
        own_ms = self.model.ttft_ms(0.0, kv_tokens, budget, self.shape)
        all_ms = self.model.ttft_ms(pod.waiting_tokens * denser, kv_tokens, budget, self.shape)
        left_ms = (self.targets.ttft_ms - own_ms) * self.sensitivity
        later = (_kv_tokens(pod) + pod.waiting_tokens) * denser
        if self.engine.kv_tokens and later >= self.engine.kv_tokens:
            return False
        steady = self.model.itl_ms(later) < self.targets.itl_ms * self.sensitivity
        return steady and left_ms > 0 and all_ms - own_ms < left_ms


class DynamoLoad:
    """A controller after the load-based loop.

    Args:
        targets: Of TTFT and ITL.
        bounds: `min_endpoint` and what the GPU budget allows.
        settings: Interval and sensitivity.
    """

    def __init__(
        self, targets: Latencies, bounds: ReplicaBounds, settings: LoadSettings | None = None
    ) -> None:
        self._targets = targets
        self._bounds = bounds
        self._settings = settings or LoadSettings()
        self._engine = DynamoEngine()
        self._next_due_s = AT_EVERY_SCRAPE

    @property
    def next_due_s(self) -> float:
        """One interval after the last."""
        return self._next_due_s

    @property
    def engine(self) -> DynamoEngine:
        """What it has learned of the engines."""
        return self._engine

    def decide(self, fleet: FleetObservation, now_s: float) -> Orders:
        """One interval."""
        self._next_due_s = due_after(now_s, self._settings.interval_s)
        self._engine.observe(fleet)
        wanted = self.wanted(fleet)
        if wanted is None or self._bounds.clamp(wanted) == fleet.desired_replicas:
            return NOTHING
        return Orders(replicas=self._bounds.clamp(wanted), reason="DynamoLoad")

    def wanted(self, fleet: FleetObservation) -> int | None:
        """Replicas before bounds; None where the rule does not say."""
        current = fleet.desired_replicas
        pods = [pod for pod in reporting(fleet) if pod.serving]
        view = self._view(fleet)
        if view is None or not pods or not len(pods) == existing(fleet) == current:
            return None
        expected = [view.expected(pod) for pod in pods]
        late = all(each.ttft_ms > self._targets.ttft_ms for each in expected)
        slow = all(each.itl_ms > self._targets.itl_ms for each in expected)
        if late or slow:
            return current + 1
        denser = current / max(1, current - 1)
        spare = current > 1 and all(view.holds(pod, denser) for pod in pods)
        return current - 1 if spare else current

    def _view(self, fleet: FleetObservation) -> LoadView | None:
        model, engine = self._engine.model, capabilities(fleet)
        if model is None or engine is None:
            return None
        return LoadView(
            model=model,
            shape=shape_of(fleet.last(SHAPE_WINDOW_S)),
            engine=engine,
            targets=self._targets,
            sensitivity=self._settings.sensitivity,
        )


def _kv_tokens(pod: PodObservation) -> float:
    return pod.kv_usage * (pod.kv_capacity_tokens or 0)
