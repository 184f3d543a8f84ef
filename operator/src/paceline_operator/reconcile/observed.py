"""All that one pass knows of one object: gathered once, then only read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from paceline_operator.api.status import InferenceServiceStatus
from paceline_operator.api.v1alpha1 import InferenceServiceSpec
from paceline_operator.autopilot.vocabulary.decision import Knob
from paceline_operator.autopilot.vocabulary.fleet import Allowance, PodTunables
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.domain import rollout
from paceline_operator.domain.ownership import Write
from paceline_operator.domain.pinned import Pinned
from paceline_operator.domain.pods import PodView, Problem
from paceline_operator.domain.scale_in import DrainState
from paceline_operator.metrics import Scrape

Children = Mapping[tuple[str, str], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Input of the decision.

    Attributes:
        service: The object as last seen.
        now_s: Moment of the pass.
        spec: Its spec with modes capped, None where it cannot be read.
        lowered: Knobs that get less autonomy here than it asks for.
        braked: Whether the installation has taken the replicas from the autopilot.
        allowance: Changes that the limit over all services leaves to it.
        refused: Why not.
        missing_right: What the operator may not read, though it goes on without.
        status: Its status as stored.
        children: (kind, name) -> child as last seen.
        deployment: The engines' Deployment, None before it exists.
        proxy: The proxy's Deployment, None where there is none.
        proxy_problem: What keeps the proxy's pods from serving.
        proxy_looping: Whether that is a crash loop.
        pods: Engine pods.
        scrape: Last round of measurements, None before the first.
        reports: UID -> what the engine reported of its tunables.
        waits: UID -> no live values are sent before this, after it refused some.
        drains: UID -> state of the drain: of marked pods that answered, and of others that drain.
        token: Admin token.
        memory: The autopilot's memory.
        writers: Foreign writes of replicas known before.
        autoscaler: Name of an autoscaler on the Deployment, seen lately.
        pinned: What the fleet was started with.
        target: Replicas this process decided last, None where it has not.
        retry_drain_at_s: No new drain before this.
        is_measured: Whether this pass brought new measurements.
        is_settling: Whether this process took over so lately that what it has not measured
            yet is no news.
    """

    service: Mapping[str, Any]
    now_s: float
    token: str
    spec: InferenceServiceSpec | None = None
    lowered: frozenset[Knob] = frozenset()
    braked: bool = False
    allowance: Allowance = field(default_factory=Allowance)
    refused: Problem | None = None
    missing_right: Problem | None = None
    status: InferenceServiceStatus = field(default_factory=InferenceServiceStatus)
    children: Children = field(default_factory=dict)
    deployment: Mapping[str, Any] | None = None
    proxy: Mapping[str, Any] | None = None
    proxy_problem: Problem | None = None
    proxy_looping: bool = False
    pods: tuple[PodView, ...] = ()
    scrape: Scrape | None = None
    reports: Mapping[str, PodTunables] = field(default_factory=dict)
    waits: Mapping[str, float] = field(default_factory=dict)
    drains: Mapping[str, DrainState] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    writers: tuple[Write, ...] = ()
    autoscaler: str | None = None
    pinned: Pinned = field(default_factory=Pinned)
    target: int | None = None
    retry_drain_at_s: float = 0.0
    is_measured: bool = False
    is_settling: bool = False

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.service["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """The object's namespace."""
        return str(self.service["metadata"]["namespace"])

    @property
    def uid(self) -> str:
        """The object's UID."""
        return str(self.service["metadata"]["uid"])

    @property
    def generation(self) -> int:
        """Generation of the spec."""
        return int(self.service["metadata"].get("generation", 1))

    @property
    def scale(self) -> int | None:
        """Replicas the Deployment is asked for, None before it exists."""
        if self.deployment is None:
            return None
        return int(self.deployment["spec"].get("replicas", 1))

    @property
    def rolling_out(self) -> bool:
        """Whether pods of another template are being replaced."""
        return rollout.in_progress(self.deployment)
