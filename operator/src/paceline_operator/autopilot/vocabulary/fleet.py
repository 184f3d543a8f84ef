"""What is known of the fleet at one instant; gathered by `reconcile`, never changed here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from paceline_operator.autopilot.vocabulary.window import Window, spanning

FRESH_SHARE = 0.5
"""Share of the pods that must be measured lately to act on what they say."""
LOST_AFTER_S = 300.0
"""How long a pod serves without telling anything before it is lost: as old as absent data."""


class DataClass(StrEnum):
    """How much a measurement can be trusted: hold on stale, never lower on absent."""

    FRESH = "fresh"
    STALE = "stale"
    ABSENT = "absent"


def classify(pods: Iterable[DataClass], share: float = FRESH_SHARE) -> DataClass:
    """Fresh where at least `share` of the pods are, absent where none says anything."""
    classes = list(pods)
    fresh = sum(c is DataClass.FRESH for c in classes)
    if not classes or all(c is DataClass.ABSENT for c in classes):
        return DataClass.ABSENT
    return DataClass.FRESH if fresh >= share * len(classes) else DataClass.STALE


def is_lost(data: DataClass, ready_since_s: float | None, now_s: float) -> bool:
    """Whether a pod has been ready for long and nothing of it is known any more."""
    for_s = 0.0 if ready_since_s is None else now_s - ready_since_s
    return data is DataClass.ABSENT and for_s > LOST_AFTER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunables:
    """The live knobs.

    Attributes:
        max_num_batched_tokens: Token budget of a step.
        max_num_running_seqs: Cap of running sequences.
        step_time_target_ms: Step time for which engines size prompt chunks themselves, within
            the budget; None for none.
    """

    max_num_batched_tokens: int
    max_num_running_seqs: int
    step_time_target_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Another budget on one pod, to be judged before the others get it.

    Attributes:
        uid: UID of the pod.
        budget: Its budget meanwhile.
        probes: Whether it is only to learn from: then it ends after its time, whatever it shows.
    """

    uid: str
    budget: int
    probes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTunables:
    """What an engine reports of its knobs.

    Attributes:
        effective: Budget in force.
        floor: Smallest budget it accepts with the running cap in force.
        ceiling: Largest budget, fixed at start.
        step: Granularity of the budget.
        running_seqs: Running cap in force.
        running_ceiling: Largest running cap, fixed at start.
        step_time_target_ms: Step time that it keeps, None for none.
        revision: Of the last change it took.
        requested: Budget that this change asked for, 0 where it does not say.
    """

    effective: int
    floor: int
    ceiling: int
    step: int
    running_seqs: int
    running_ceiling: int
    step_time_target_ms: float | None = None
    revision: int = 0
    requested: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PodObservation:
    """One pod that exists.

    Attributes:
        name: Pod name.
        uid: Pod UID; a series of another UID is another pod.
        template_hash: Pod template it was made from.
        resources: What it has of its node, in a form that differs where that does; empty where
            unknown.
        ready: Whether it serves.
        created_s: Creation time.
        ready_since_s: When it last became ready, None while it is not.
        unready_since_s: When it last ceased to be, None while it is, or where nobody says.
        looping: Whether it crashes again and again, though it may be ready for a moment.
        draining: Whether it is being emptied or deleted.
        no_room: What the scheduler says of it while no node takes it, empty otherwise.
        data: Freshness of its last scrape.
        tunables: None where the engine has not answered yet.
        running: Running requests at the last scrape.
        waiting: Waiting requests of both tiers.
        batch_waiting: Those of the batch tier.
        waiting_tokens: Prompt tokens of waiting interactive requests not yet processed.
        kv_usage: Share of KV blocks in use, 0..1.
        kv_capacity_tokens: Tokens the KV pool holds, None where unknown.
    """

    name: str
    uid: str
    template_hash: str = ""
    resources: str = ""
    ready: bool = False
    created_s: float = 0.0
    ready_since_s: float | None = None
    unready_since_s: float | None = None
    looping: bool = False
    draining: bool = False
    no_room: str = ""
    data: DataClass = DataClass.ABSENT
    tunables: PodTunables | None = None
    running: int = 0
    waiting: int = 0
    batch_waiting: int = 0
    waiting_tokens: int = 0
    kv_usage: float = 0.0
    kv_capacity_tokens: int | None = None

    @property
    def serving(self) -> bool:
        """Whether it takes requests and will go on doing so."""
        return self.ready and not self.draining

    @property
    def unready_from_s(self) -> float:
        """Since when one that is not ready has not been: one that was may be so again at once."""
        return max(self.created_s, self.unready_since_s or self.created_s)

    def came_s(self, longest_s: float) -> float:
        """When it has begun to serve; 0 where it was only unready, since that brings nothing new.

        Args:
            longest_s: How long one takes that is new.
        """
        ready_s = self.ready_since_s or 0.0
        return ready_s if ready_s - self.created_s <= longest_s else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """Changes that the limit over all services leaves to this one; by default any.

    Attributes:
        knobs: Whether the live knobs may move.
        out: Replicas that may be added, None for any number.
        inward: Replicas that may be given back, None for any number.
        until_s: When more will be possible, None where nothing is held.
    """

    knobs: bool = True
    out: int | None = None
    inward: int | None = None
    until_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetObservation:
    """The fleet at `now_s`.

    Attributes:
        now_s: Operator's clock, seconds since the epoch.
        pods: All existing pods, the deleted ones that still run included.
        slices: Merged measurements, oldest first, adjoining, about 5 s each, the last
            300 s at most; gaps mean that nothing was reported then.
        desired_replicas: Replicas wanted so far; `/scale` follows once victims are empty.
        desired_tunables: What is pushed to the engines now, None before the first push.
        template_hash: Current pod template.
        rolling_out: Whether pods of another template are being replaced.
        yielded: Knob name -> foreign writer, for knobs the operator has left to someone.
        allowance: Changes that the limit over all services leaves.
    """

    now_s: float
    pods: tuple[PodObservation, ...] = ()
    slices: tuple[Window, ...] = ()
    desired_replicas: int = 0
    desired_tunables: Tunables | None = None
    template_hash: str = ""
    rolling_out: bool = False
    yielded: dict[str, str] = field(default_factory=dict)
    allowance: Allowance = Allowance()

    @property
    def serving(self) -> tuple[PodObservation, ...]:
        """Pods that take requests."""
        return tuple(p for p in self.pods if p.serving)

    @property
    def pending(self) -> tuple[PodObservation, ...]:
        """Pods that will serve but do not yet."""
        return tuple(p for p in self.pods if not p.ready and not p.draining)

    @property
    def lost(self) -> tuple[PodObservation, ...]:
        """Pods that serve and have told nothing for so long that none of it is in the slices."""
        return tuple(p for p in self.serving if is_lost(p.data, p.ready_since_s, self.now_s))

    @property
    def seen_share(self) -> float:
        """Share of the serving pods that the slices are of, 1 where none is."""
        lost, serving = len(self.lost), len(self.serving)
        return 1.0 - lost / serving if lost < serving else 1.0

    @property
    def unheeded(self) -> tuple[PodObservation, ...]:
        """Pods that serve with a larger budget than wanted: what they measure is not its doing."""
        wanted = self.desired_tunables
        if wanted is None:
            return ()
        return tuple(
            pod
            for pod in self.serving
            if (report := pod.tunables) is not None
            and report.effective - report.step >= wanted.max_num_batched_tokens >= report.floor
        )

    def since(self, start_s: float) -> Window:
        """Everything measured in slices that begin at or after `start_s`."""
        return spanning(w for w in self.slices if w.start_s >= start_s - 1e-6)

    def last(self, seconds: float) -> Window:
        """Everything measured in the last `seconds`, counted back from the newest slice."""
        if not self.slices:
            return spanning(())
        return self.since(self.slices[-1].end_s - seconds)
