"""A simulated fleet's make: engines, start-up, delays, routing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.simulator.engine_config import EngineConfig

BEGIN_S = 1000.0
"""The clock when a load begins: to the control law, 0 means never."""
STALE_AFTER_SCRAPES = 3
ABSENT_AFTER_S = 300.0


class RoutingKind(StrEnum):
    """How a pod is chosen for a request."""

    RANDOM = "random"
    ROUND_ROBIN = "round_robin"
    LEAST_CONNECTIONS = "least_connections"
    STALE_LEAST_CONNECTIONS = "stale_least_connections"
    SKEWED = "skewed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """The router.

    Attributes:
        kind: Rule.
        age_s: Of the counts that `STALE_LEAST_CONNECTIONS` goes by, at most.
        share: Of all requests that `SKEWED` sends to the oldest pod.
    """

    kind: RoutingKind = RoutingKind.LEAST_CONNECTIONS
    age_s: float = 5.0
    share: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetConfig:
    """The whole of it; all pods are alike.

    Attributes:
        engine: Of every pod.
        objectives: What engines count against, and clients judge by.
        initial_replicas: Ready at the beginning.
        cold_start_s: From a pod made to one that is ready.
        cold_start_jitter: Share by which that varies, uniformly to either side.
        address_s: From a pod that has a node to one with an address, whose process answers.
        warm_up_s: How long a new pod's steps are slower.
        warm_up_factor: How many times as long they take.
        routing: The router.
        readiness_delay_s: From a pod's readiness to the router's knowing.
        tunables_delay_s: From a decision to the engine's taking new live values.
        scale_delay_s: From a decision to pods made or told to go.
        scrape_interval_s: Between two rounds of measuring.
        drain_s: Longest drain.
        timeout_s: After which clients leave without a whole answer, None for never.
        patience_s: After which clients leave without a first token, None for never.
    """

    engine: EngineConfig
    objectives: tuple[Objective, ...] = ()
    initial_replicas: int = 1
    cold_start_s: float = 120.0
    cold_start_jitter: float = 0.0
    address_s: float = 2.0
    warm_up_s: float = 0.0
    warm_up_factor: float = 1.0
    routing: Routing = Routing()
    readiness_delay_s: float = 1.0
    tunables_delay_s: float = 0.05
    scale_delay_s: float = 0.2
    scrape_interval_s: float = 5.0
    drain_s: float = 300.0
    timeout_s: float | None = None
    patience_s: float | None = None
