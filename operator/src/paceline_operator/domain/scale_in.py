"""Which pods leave, and how: drained first, so that no request is cut.

A pod is marked by annotations (since when it drains, and the lowest deletion cost), then told
to drain, and `/scale` is written once every victim is empty. The marks live in the cluster,
so another leader goes on where this one stopped. A ReplicaSet prefers unready pods to costs:
hence nothing is scaled while a pod other than the victims is unready, unless that pod is stuck:
then it serves nobody, and the ReplicaSet may well take it first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from paceline_operator.domain.contract import DRAIN_GRACE_SECONDS
from paceline_operator.domain.pods import PodView

NEVER = math.inf


class Waiting(StrEnum):
    """What holds a scale-in up."""

    ROLLOUT = "a rollout is under way"
    UNREADY = "a pod that stays is not ready"
    DRAINING = "pods are being drained"
    RETRY = "a drain that did not end in time was undone; it is tried again later"


@dataclass(frozen=True, slots=True)
class DrainState:
    """What an engine says of its drain.

    Attributes:
        refusing: Whether new requests are refused.
        announced: Whether they are still taken, though it is unready.
        empty: Whether no request runs.
        terminal: Whether its process ends after it: such a drain is nobody's to undo.
    """

    refusing: bool
    announced: bool
    empty: bool
    terminal: bool = False

    @property
    def active(self) -> bool:
        """Whether a drain is on."""
        return self.announced or self.refusing

    @property
    def done(self) -> bool:
        """Whether nothing runs and nothing can come."""
        return self.refusing and self.empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Input of the plan.

    Attributes:
        pods: All pods that exist.
        target: Replicas wanted.
        scale: Replicas `/scale` says.
        rolling_out: Whether pods of another template are being replaced, or may soon be: something
            was written that the Deployment's controller has not seen.
        replacing: Whether it is known that they are.
        loads: UID -> requests in the engine; a missing one is unknown.
        lost: UIDs of pods that serve and have told nothing for long.
        drains: UID -> state of its drain; a missing one did not answer.
        drain_s: Longest drain.
        patience_s: How long a pod may be unready before it is taken for stuck.
        retry_at_s: No new drain before this.
    """

    pods: tuple[PodView, ...]
    target: int
    scale: int
    rolling_out: bool = False
    replacing: bool = False
    loads: Mapping[str, float] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()
    drains: Mapping[str, DrainState] = field(default_factory=dict)
    drain_s: float = 300.0
    patience_s: float = 240.0
    retry_at_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """What to do now.

    Attributes:
        begin: Pods to mark and to tell to drain (again, where their engine has forgotten).
        undo: Pods to take back into service.
        expired: Those of `undo` whose drain took too long.
        scale: Replicas to write, None for nothing.
        victims: Pods that should be gone after the write.
        waiting: What holds it up.
    """

    begin: tuple[PodView, ...] = ()
    undo: tuple[PodView, ...] = ()
    expired: tuple[PodView, ...] = ()
    scale: int | None = None
    victims: tuple[PodView, ...] = ()
    waiting: Waiting | None = None


def strays(
    pods: tuple[PodView, ...], drains: Mapping[str, DrainState], begin: tuple[PodView, ...]
) -> tuple[PodView, ...]:
    """Pods that drain though the operator asked for none: a pod is marked before it is asked.

    An engine that was told to end, by its kubelet or a node that shuts down, drains as well; its
    container is started anew, and there is nothing to undo.

    Args:
        pods: All pods that exist.
        drains: UID -> state of its drain.
        begin: Pods that are about to be drained anyway.
    """
    return tuple(
        pod
        for pod in pods
        if pod.live
        and pod.draining_since_s is None
        and pod not in begin
        and (state := drains.get(pod.uid)) is not None
        and state.active
        and not state.terminal
    )


def plan(fleet: Fleet, now_s: float) -> Moves:
    """Next moves towards the wanted replicas; scale-out is one write, at once."""
    live = tuple(pod for pod in fleet.pods if pod.live)
    marked = tuple(pod for pod in live if pod.draining_since_s is not None)
    if fleet.target >= fleet.scale:
        # Its own write of fewer replicas is what the controller is told by the marks.
        leaving = () if fleet.replacing else marked[: max(0, len(live) - fleet.target)]
        undo = tuple(pod for pod in marked if pod not in leaving)
        return Moves(undo=undo, scale=fleet.target if fleet.target > fleet.scale else None)
    if fleet.rolling_out:
        return Moves(undo=marked, waiting=Waiting.ROLLOUT)
    surplus = len(live) - fleet.target
    if surplus <= 0:
        return Moves(undo=marked, scale=fleet.target)
    return _leave(fleet, live, surplus, now_s)


def _leave(fleet: Fleet, live: tuple[PodView, ...], surplus: int, now_s: float) -> Moves:
    expired = tuple(pod for pod in live if _expired(fleet, pod, now_s))
    if expired:
        # One whose engine cannot be told is tried, and told of, again and again, not all the time.
        due = expired if now_s >= fleet.retry_at_s else ()
        return Moves(undo=due, expired=due, waiting=Waiting.RETRY)
    victims = _ranked(fleet, live, now_s)[:surplus]
    spared = tuple(p for p in live if p not in victims and p.draining_since_s is not None)
    staying = [pod for pod in live if pod not in victims and pod not in spared]
    if any(not (pod.ready or _stuck(fleet, pod, now_s)) for pod in staying):
        return Moves(undo=spared, waiting=Waiting.UNREADY)
    begin = tuple(p for p in victims if _needs_drain(fleet, p, now_s))
    if begin and now_s < fleet.retry_at_s:
        return Moves(undo=spared, waiting=Waiting.RETRY)
    if all(_gone_quietly(fleet, pod, now_s) for pod in victims) and not spared:
        return Moves(scale=fleet.target, victims=victims)
    return Moves(begin=begin, undo=spared, waiting=Waiting.DRAINING)


def _ranked(fleet: Fleet, live: tuple[PodView, ...], now_s: float) -> tuple[PodView, ...]:
    """Best victim first: already draining, stuck, lost, then the least loaded, youngest first."""

    def rank(pod: PodView) -> tuple[bool, bool, bool, float, float, str]:
        return (
            pod.draining_since_s is None,
            not _stuck(fleet, pod, now_s),
            pod.uid not in fleet.lost,
            fleet.loads.get(pod.uid, NEVER),
            -pod.created_s,
            pod.name,
        )

    return tuple(sorted(live, key=rank))


def _stuck(fleet: Fleet, pod: PodView, now_s: float) -> bool:
    """Whether it has not served for long; one that missed a probe may have streams that run."""
    if pod.ready or pod.draining_since_s is not None:
        return False
    since_s = max(pod.created_s, pod.unready_since_s or pod.created_s)
    return pod.looping or now_s - since_s > fleet.patience_s


def _expired(fleet: Fleet, pod: PodView, now_s: float) -> bool:
    if pod.draining_since_s is None:
        return False
    state = fleet.drains.get(pod.uid)
    if (state is not None and state.done) or _is_mute(fleet, pod):
        return False
    return _is_over(fleet, pod, now_s)


def _is_over(fleet: Fleet, pod: PodView, now_s: float) -> bool:
    """Whether a drain has had all the time that there is for one."""
    begun_s = now_s if pod.draining_since_s is None else pod.draining_since_s
    return now_s - begun_s > fleet.drain_s + DRAIN_GRACE_SECONDS


def _is_mute(fleet: Fleet, pod: PodView) -> bool:
    """Whether neither metrics nor drain of a pod can be read: no other try would be better."""
    return pod.uid in fleet.lost and pod.uid not in fleet.drains


def _needs_drain(fleet: Fleet, pod: PodView, now_s: float) -> bool:
    if pod.draining_since_s is None:
        return not _serves_nobody(fleet, pod, now_s)
    state = fleet.drains.get(pod.uid)
    return state is not None and not state.active


def _gone_quietly(fleet: Fleet, pod: PodView, now_s: float) -> bool:
    if pod.draining_since_s is None:
        return _serves_nobody(fleet, pod, now_s)
    if _is_mute(fleet, pod):
        return _is_over(fleet, pod, now_s)  # it drains once more, when it is told to end
    state = fleet.drains.get(pod.uid)
    return state is not None and state.done


def _serves_nobody(fleet: Fleet, pod: PodView, now_s: float) -> bool:
    has_started = pod.ip is not None
    return _stuck(fleet, pod, now_s) or not (pod.ready or has_started)
