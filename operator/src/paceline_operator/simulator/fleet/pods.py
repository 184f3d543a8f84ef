"""One pod of a simulated fleet, from its making to its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf

from paceline_operator.autopilot.vocabulary.fleet import PodTunables, Tunables
from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.domain.contract import DRAIN_GRACE_SECONDS
from paceline_operator.domain.pods import UNSCHEDULABLE, PodView, Problem
from paceline_operator.domain.scale_in import DrainState
from paceline_operator.simulator.engine import Engine
from paceline_operator.simulator.engine_config import EngineConfig
from paceline_operator.simulator.metering.meter import Meter
from paceline_operator.simulator.sink import Served

TEMPLATE = "t"
NO_NODE = Problem(UNSCHEDULABLE, "no node has room")

Ended = Callable[["Pod", Served, str], None]
"""Told of the end of each request of a pod."""


class PodSink:
    """Where a pod's engine reports: to its meter, and ends of requests to the clients as well."""

    __slots__ = ("_ended", "_meter", "_pod", "accepted", "admitted", "gap", "step", "stretch")

    def __init__(self, pod: Pod, ended: Ended) -> None:
        self._pod, self._meter, self._ended = pod, pod.meter, ended
        # Bound once: a call in between would cost every step.
        self.admitted, self.gap = pod.meter.admitted, pod.meter.gap
        self.step, self.stretch = pod.meter.step, pod.meter.stretch
        self.accepted = pod.meter.accepted

    def first_token(self, served: Served) -> None:
        """A request has its first token."""
        self._meter.first_token(served)
        self._pod.unanswered.discard(served.id)

    def ended(self, served: Served, outcome: str) -> None:
        """A request has come to its end, or was given up."""
        self._meter.ended(served, outcome)
        self._ended(self._pod, served, outcome)


class Pod:
    """A pod with its engine.

    Args:
        number: In the order they were made, the first one is 1.
        config: Of its engine.
        objectives: What its engine counts against.
        now_s: When it is made.
        ended: Told of the end of each of its requests.

    Attributes:
        number: As above.
        engine: The engine.
        meter: What it counts.
        connections: Requests on their way through it.
        open: Ids of those.
        unanswered: Ids of those without a first token, where somebody asks.
        turn: Grows with each change of `connections` in the fleet; the router takes turns by it.
        created_s: When it was made.
        has_node: Whether a node has room for it.
        address_s: From when it has an address and answers.
        ready_s: When it will have started.
        ready_since_s: Since when it is ready, None while it is not.
        is_routed: Whether the router knows it.
        drain_since_s: Since when its engine drains, None where it does not.
        marked_s: Mark of a drained scale-in, None without one.
        deleting_s: When it was told to go, None before.
        is_lost: Whether it has ended without warning.
        verdict: What its requests come to that end now, None for what its engine says.
        revision: Of the live values its engine took last.
        claimed: Live values its engine reports instead of those in force, None for the truth.
    """

    __slots__ = (
        "address_s", "claimed", "connections", "created_s", "deleting_s", "drain_since_s",
        "engine", "has_node", "is_lost", "is_routed", "marked_s", "meter", "name", "number",
        "open", "ready_s", "ready_since_s", "revision", "turn", "uid", "unanswered", "verdict",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        config: EngineConfig,
        objectives: tuple[Objective, ...],
        now_s: float,
        ended: Ended,
    ) -> None:
        self.number = number
        self.name = f"pod-{number}"
        self.uid = f"uid-{number}"
        self.meter = Meter(objectives, now_s)
        own = replace(config, noise_seed=config.noise_seed + number)
        self.engine = Engine(own, PodSink(self, ended), now_s)
        self.engine.targets(self.meter.itl_targets_ms)
        self.meter.follow(self.engine)
        self.connections = 0
        self.open: set[int] = set()
        self.unanswered: set[int] = set()
        self.turn = 0
        self.created_s = now_s
        self.has_node = False
        self.address_s = self.ready_s = inf
        self.ready_since_s: float | None = None
        self.is_routed = False
        self.drain_since_s: float | None = None
        self.marked_s: float | None = None
        self.deleting_s: float | None = None
        self.is_lost = False
        self.verdict: str | None = None
        self.revision = 0
        self.claimed: Tunables | None = None

    @property
    def is_live(self) -> bool:
        """Whether it counts as a replica."""
        return self.deleting_s is None

    @property
    def is_ready(self) -> bool:
        """Whether it is listed as ready."""
        return self.ready_since_s is not None

    def answers(self, now_s: float) -> bool:
        """Whether its process answers."""
        return self.address_s <= now_s and not self.is_lost

    def accepts(self, now_s: float) -> bool:
        """Whether it takes a request that reaches it."""
        return self.ready_s <= now_s and not self.is_lost and not self.refuses(now_s)

    def refuses(self, now_s: float) -> bool:
        """Whether its drain is past the grace."""
        since_s = self.drain_since_s
        return since_s is not None and now_s - since_s >= DRAIN_GRACE_SECONDS

    def drain_state(self, now_s: float) -> DrainState:
        """What its engine says of its drain."""
        self.engine.advance(now_s)
        is_refusing = self.refuses(now_s)
        return DrainState(
            refusing=is_refusing,
            announced=self.drain_since_s is not None and not is_refusing,
            empty=self.engine.is_empty,
            terminal=not self.is_live,
        )

    def end_requests(self, verdict: str, now_s: float) -> int:
        """Ends all its requests where they are; returns how many there were."""
        self.verdict = verdict
        self.engine.advance(now_s)
        found = sorted(self.open)
        for request_id in found:
            self.engine.abort(request_id, now_s)
        return len(found)

    def tune(self, knobs: Tunables, revision: int, now_s: float) -> None:
        """Its engine takes live values."""
        self.revision, self.claimed = revision, None
        self.engine.advance(now_s)
        self.engine.apply(
            max_num_batched_tokens=knobs.max_num_batched_tokens,
            max_num_running_seqs=knobs.max_num_running_seqs,
            step_time_target_ms=knobs.step_time_target_ms or 0.0,
            now_s=now_s,
        )

    def pretend(self, knobs: Tunables, revision: int) -> None:
        """Its engine says that it has taken live values."""
        self.revision, self.claimed = revision, knobs

    def report(self) -> PodTunables:
        """What its engine reports of its live values."""
        engine = self.engine
        found = PodTunables(
            effective=engine.budget,
            floor=engine.budget_floor,
            ceiling=engine.budget_ceiling,
            step=engine.budget_step,
            running_seqs=engine.running_cap,
            running_ceiling=engine.running_ceiling,
            step_time_target_ms=engine.step_time_target_ms or None,
            revision=self.revision,
        )
        if self.claimed is None:
            return found
        return replace(
            found,
            effective=self.claimed.max_num_batched_tokens,
            running_seqs=self.claimed.max_num_running_seqs,
            step_time_target_ms=self.claimed.step_time_target_ms,
        )

    def view(self, now_s: float) -> PodView:
        """The pod as the cluster lists it."""
        return PodView(
            name=self.name,
            uid=self.uid,
            ip=self.name if self.address_s <= now_s else None,
            created_s=self.created_s,
            ready=self.is_ready,
            ready_since_s=self.ready_since_s,
            deleting=not self.is_live,
            template_hash=TEMPLATE,
            incarnation=self.uid,
            draining_since_s=self.marked_s,
            problem=None if self.has_node else NO_NODE,
        )
