"""What is remembered of one object between ticks; all of it can be lost and found again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from paceline_operator.autopilot.vocabulary.decision import Decision, Observation, Tick
from paceline_operator.autopilot.vocabulary.fleet import PodTunables
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.domain import contest
from paceline_operator.domain.ownership import Write
from paceline_operator.domain.pinned import Pinned
from paceline_operator.domain.pod_event import PodEvent
from paceline_operator.domain.pods import PodView, Problem
from paceline_operator.kube.client import Object
from paceline_operator.metrics import Scrape, Scraper
from paceline_operator.reconcile.backoff import backoff_s
from paceline_operator.reconcile.engine_admin import EngineError, RefusedError

NEVER = float("-inf")
Round = tuple[Scrape, float, float]
"""What a round of measuring has brought, when it began, and how long it took in seconds."""
FIRST_WAIT_S = 1.0
SETTLE_S = 60.0
"""What a process that took over cannot know yet, it leaves as it was for this long."""
MAX_WAIT_S = 60.0
TOLD_AFTER_TRIES = 3
"""A push fails now and then; what fails this often in a row is told."""
STRAYED_S = 600.0
"""How long the status tells of somebody else's drain."""


@dataclass(slots=True, kw_only=True)
class Session:
    """Memory of one object.

    Attributes:
        scraper: Measurements of its pods.
        uid: UID of the object it is about, empty before it was seen.
        scrape: Last round.
        scraped_at_s: When that was.
        round: One that is under way, None where none is.
        is_slow: Whether the last one took longer than a pass waits for one.
        undecided: Whether the last one was not decided upon yet: the pass may have failed.
        resynced_at_s: When the children were last listed instead of watched.
        secret: The object's own Secret as last read, None where there is none.
        secret_read_at_s: When that was.
        token: Admin token, None before it was read from that Secret or made.
        missing_right: Why the Secret could not be read when that was tried last.
        token_doubted: Whether an engine has refused it since the Secret was read.
        reports: Incarnation of a pod -> what its engine reported last.
        waits: Incarnation of a pod that refused live values -> how often, and no try before.
        silences: The same of one that gives no report of those it has.
        memory: The autopilot's memory, None before it was taken over.
        writers: Foreign writes of replicas that still count.
        autoscaler: Name of an autoscaler on the Deployment, and when it was last seen.
        last_tick: What the autopilot said last.
        stepped_generation: Generation it was last asked for.
        written_at_s: Moment that the last write of the status is counted for: bad news that did
            not wait for its minute is counted for the next one.
        inherited_at_s: When a status of an earlier process was taken over.
        retry_drain_at_s: No new drain before this.
        pinned: What the fleet was started with, None before it was taken over or begun.
        target: Replicas last decided and carried out, None before that.
        unpublished: Moves that no status tells of yet.
        observed: What was measured after moves, while no status tells of it yet.
        own: The object as this pass itself wrote it, None before it did.
        is_announced: Whether this pass has written a new revision, which engines may run with.
        is_ordered: Whether it has written other replicas.
        is_told: Whether it has told of what it decided.
        expected_gone: UID -> name of pods that a scale-in should remove.
        strays: UID of a pod that somebody else drained -> its name, and when that was last seen.
        strays_told_s: When an event last told of one.
        ending: Incarnations of pods whose engine refused to be taken back: its process ends.
        applied: Kind and name of a child -> digest of the manifest it was last brought to.
        compared: Kind and name of a child -> the same digest, and the UID and version of the child
            that was found to agree with it.
        forgiven: UID of a pod -> restarts of its containers that no loop counts any more.
        contests: What others undo again and again.
        causes: UID of a pod without containers -> when its events were read, and the newest.
    """

    scraper: Scraper
    uid: str = ""
    scrape: Scrape | None = None
    scraped_at_s: float = NEVER
    round: asyncio.Task[Round] | None = None
    is_slow: bool = False
    undecided: bool = False
    resynced_at_s: float = NEVER
    secret: Object | None = None
    secret_read_at_s: float = NEVER
    token: str | None = None
    missing_right: Problem | None = None
    token_doubted: bool = False
    reports: dict[str, PodTunables] = field(default_factory=dict)
    waits: dict[str, tuple[int, float]] = field(default_factory=dict)
    silences: dict[str, tuple[int, float]] = field(default_factory=dict)
    memory: Memory | None = None
    writers: tuple[Write, ...] = ()
    autoscaler: tuple[str, float] | None = None
    last_tick: Tick | None = None
    stepped_generation: int = 0
    written_at_s: float = NEVER
    inherited_at_s: float = NEVER
    retry_drain_at_s: float = 0.0
    pinned: Pinned | None = None
    target: int | None = None
    unpublished: tuple[Decision, ...] = ()
    observed: tuple[Observation, ...] = ()
    own: Object | None = None
    is_announced: bool = False
    is_ordered: bool = False
    is_told: bool = False
    expected_gone: dict[str, str] = field(default_factory=dict)
    strays: dict[str, tuple[str, float]] = field(default_factory=dict)
    strays_told_s: float = NEVER
    ending: set[str] = field(default_factory=set)
    applied: dict[tuple[str, str], str] = field(default_factory=dict)
    compared: dict[tuple[str, str], tuple[str, tuple[str, str]]] = field(default_factory=dict)
    forgiven: dict[str, dict[str, int]] = field(default_factory=dict)
    contests: dict[contest.Key, contest.Contest] = field(default_factory=dict)
    causes: dict[str, tuple[float, PodEvent | None]] = field(default_factory=dict)

    @property
    def stands(self) -> bool:
        """Whether a part of what this pass decided is done: it holds, also if the rest fails."""
        return self.is_announced or self.is_ordered

    def begin_pass(self) -> None:
        """Forget what the last pass has done."""
        self.own, self.is_announced, self.is_ordered, self.is_told = None, False, False, False

    def wait(self, incarnation: str, now_s: float) -> None:
        """Leave a pod that did not take live values alone for a while, longer each time."""
        _once_more(self.waits, incarnation, now_s)

    def unheard(self, incarnation: str, now_s: float) -> None:
        """Do the same with one that did not say which it has."""
        _once_more(self.silences, incarnation, now_s)

    def deaf(self, pods: Iterable[PodView]) -> tuple[str, ...]:
        """Names of pods that again and again do not take live values."""
        often = {
            incarnation
            for known in (self.waits, self.silences)
            for incarnation, (count, _) in known.items()
            if count >= TOLD_AFTER_TRIES
        }
        return tuple(sorted(pod.name for pod in pods if pod.incarnation in often))

    def inherit(self, now_s: float) -> None:
        """Go on from the status of an earlier process; it may have written just now."""
        self.inherited_at_s = self.written_at_s = now_s

    def is_settling(self, now_s: float) -> bool:
        """Whether an earlier process still knows better what was measured."""
        return now_s - self.inherited_at_s < SETTLE_S

    def strayed(self, now_s: float) -> tuple[str, ...]:
        """Names of pods that somebody else drained lately."""
        recent = (name for name, last_s in self.strays.values() if now_s - last_s <= STRAYED_S)
        return tuple(sorted(recent))

    def note(self, error: EngineError) -> None:
        """Look at how an engine refused: one that knows another token makes ours doubtful."""
        if isinstance(error, RefusedError) and error.status == 401:
            self.token_doubted = True


def _once_more(known: dict[str, tuple[int, float]], incarnation: str, now_s: float) -> None:
    count = known.get(incarnation, (0, 0.0))[0] + 1
    known[incarnation] = (count, now_s + backoff_s(count, FIRST_WAIT_S, MAX_WAIT_S))


def load_writers(stored: Mapping[str, Any] | None, now_s: float) -> tuple[Write, ...]:
    """Foreign writes remembered in a status; none where they cannot be read.

    Args:
        stored: The status' memory.
        now_s: Now: no later is what a clock that was ahead has left.
    """
    try:
        return tuple(
            Write(
                manager=str(each["manager"]),
                time_s=min(now_s, float(each["time"])),
                replicas=int(each["replicas"]),
                in_force=bool(each["inForce"]),
            )
            for each in (stored or {}).get("writers") or ()
        )
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return ()


def dump_writers(writers: tuple[Write, ...]) -> list[dict[str, Any]]:
    """Foreign writes as JSON values."""
    return [
        {
            "manager": each.manager,
            "time": round(each.time_s, 3),
            "replicas": each.replicas,
            "inForce": each.in_force,
        }
        for each in writers
    ]


def load_strays(stored: Mapping[str, Any] | None, now_s: float) -> dict[str, tuple[str, float]]:
    """Pods that somebody else drained, as a status remembers them; none where it cannot be read.

    Args:
        stored: The status' memory.
        now_s: Now, as for `load_writers`.
    """
    try:
        return {
            str(each["uid"]): (str(each["name"]), min(now_s, float(each["time"])))
            for each in (stored or {}).get("strays") or ()
        }
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return {}


def dump_strays(strays: Mapping[str, tuple[str, float]]) -> list[dict[str, Any]]:
    """Pods that somebody else drained as JSON values."""
    return [
        {"uid": uid, "name": name, "time": round(last_s, 3)}
        for uid, (name, last_s) in sorted(strays.items())
    ]
