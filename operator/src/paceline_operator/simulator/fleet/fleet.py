"""The pods of a simulated fleet: what a cluster does by itself, told or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from paceline_operator.autopilot.vocabulary.fleet import Tunables
from paceline_operator.domain.contract import DRAIN_GRACE_SECONDS
from paceline_operator.domain.tunables import Agreed
from paceline_operator.simulator.fleet.agenda import Agenda
from paceline_operator.simulator.fleet.faults import Faults, PodKilled
from paceline_operator.simulator.fleet.fleet_config import FleetConfig
from paceline_operator.simulator.fleet.pods import Ended, Pod
from paceline_operator.simulator.generator import Generator
from paceline_operator.simulator.scoring.outcome import FAILED

LOOK_EVERY_S = 1.0
"""How often a pod that was told to go is looked at."""


class Fleet:
    """Nodes, ReplicaSet, pods, and what the router knows of them.

    Args:
        config: Its make.
        agenda: Where it puts down what follows.
        faults: What goes wrong.
        generator: Chance.
        ended: Told of the end of each request.

    Attributes:
        pods: All that exist, oldest first.
        routed: Those that the router knows.
        scale: Replicas that `/scale` says.
        writer: Who wrote that, None for the operator.
        starting: Live values that a new engine begins with, and their revision.
        cut: Requests that ended because their pod was told to go.
    """

    def __init__(
        self,
        config: FleetConfig,
        agenda: Agenda,
        faults: Faults,
        generator: Generator,
        ended: Ended,
    ) -> None:
        self._config = config
        self._agenda = agenda
        self._faults = faults
        self._generator = generator
        self._ended = ended
        self._made = 0
        self._gone_seconds = 0.0
        self._gone: list[tuple[Pod, float]] = []
        self.pods: list[Pod] = []
        self.routed: list[Pod] = []
        self.scale = config.initial_replicas
        self.writer: str | None = None
        self.starting = Agreed(
            0,
            Tunables(
                max_num_batched_tokens=config.engine.initial_batched_tokens,
                max_num_running_seqs=config.engine.initial_running_seqs,
                step_time_target_ms=config.engine.step_time_target_ms or None,
            ),
        )
        self.cut = 0

    def begin(self, now_s: float) -> None:
        """The first replicas are there and ready."""
        for _ in range(self.scale):
            pod = self._made_pod(now_s)
            pod.has_node = pod.is_routed = True
            pod.address_s = pod.ready_s = pod.ready_since_s = now_s
            self.pace(pod, now_s)
        self._list_routed()

    def write_scale(self, replicas: int, writer: str | None, now_s: float) -> None:
        """`/scale` is written, by None for the operator: pods are made or told to go."""
        self.scale, self.writer = replicas, writer
        self._replicate(now_s)

    def _replicate(self, now_s: float) -> None:
        live = [pod for pod in self.pods if pod.is_live]
        for _ in range(self.scale - len(live)):
            self._made_pod(now_s)
        self.place(now_s)
        for pod in sorted(live, key=partial(_rank, now_s))[: max(0, len(live) - self.scale)]:
            self._delete(pod, now_s)

    def _made_pod(self, now_s: float) -> Pod:
        self._made += 1
        config = replace(
            self._config.engine,
            initial_batched_tokens=self.starting.knobs.max_num_batched_tokens,
            initial_running_seqs=self.starting.knobs.max_num_running_seqs,
            step_time_target_ms=self.starting.knobs.step_time_target_ms or 0.0,
        )
        pod = Pod(self._made, config, self._config.objectives, now_s, self._ended)
        pod.revision = self.starting.revision
        self.pods.append(pod)
        return pod

    def place(self, now_s: float) -> None:
        """Pods without a node get one while there is room."""
        room = self._faults.room(now_s) - sum(pod.has_node for pod in self.pods)
        for pod in self.pods:
            if room > 0 and not pod.has_node:
                room -= 1
                self._start(pod, now_s)

    def _start(self, pod: Pod, now_s: float) -> None:
        pod.has_node = True
        took_s, jitter = self._config.cold_start_s, self._config.cold_start_jitter
        if jitter:
            took_s *= 1.0 + jitter * (2.0 * self._generator.random() - 1.0)
        begin_s = self._faults.starts_s(now_s)
        pod.address_s = begin_s + min(self._config.address_s, took_s)
        pod.ready_s = begin_s + took_s
        self._agenda.at(pod.ready_s, partial(self._become_ready, pod))

    def _become_ready(self, pod: Pod, now_s: float) -> None:
        if pod not in self.pods:
            return
        pod.ready_since_s = now_s
        self._tell_router(pod, now_s)
        self.pace(pod, now_s)
        if self._config.warm_up_s:
            self._agenda.at(now_s + self._config.warm_up_s, partial(self.pace, pod))

    def pace(self, pod: Pod, now_s: float) -> None:
        """Lets a pod's steps take as long as its warm-up and what goes wrong say."""
        is_warm = pod.number <= self._config.initial_replicas or (
            now_s >= pod.ready_s + self._config.warm_up_s
        )
        factor = 1.0 if is_warm else self._config.warm_up_factor
        pod.engine.advance(now_s)
        pod.engine.slow_down(
            factor * self._faults.slowness(pod.number, now_s),
            now_s,
            self._faults.speculation(pod.number, now_s),
        )

    def pace_all(self, now_s: float) -> None:
        """The same for all pods."""
        for pod in self.pods:
            self.pace(pod, now_s)

    def _tell_router(self, pod: Pod, now_s: float) -> None:
        """The router learns a little later what a pod's readiness is by then."""

        def learn(_now_s: float) -> None:
            pod.is_routed = pod.is_ready and not pod.is_lost
            self._list_routed()

        self._agenda.at(now_s + self._config.readiness_delay_s, learn)

    def _list_routed(self) -> None:
        self.routed = [pod for pod in self.pods if pod.is_routed]

    def kill(self, fault: PodKilled, now_s: float) -> None:
        """A pod ends without warning; another is made once that is noticed."""
        ready = [pod for pod in self.pods if pod.is_ready and not pod.is_lost]
        if not ready:
            return
        pod = ready[fault.place % len(ready)]
        pod.end_requests(FAILED, now_s)
        pod.is_lost = True
        self._tell_router(pod, now_s)
        self._agenda.at(now_s + fault.unnoticed_s, partial(self._bury, pod))

    def _bury(self, pod: Pod, now_s: float) -> None:
        self._remove(pod, now_s)
        self._replicate(now_s)

    def _remove(self, pod: Pod, now_s: float) -> None:
        if pod not in self.pods:
            return
        self.pods.remove(pod)
        self._gone.append((pod, now_s))
        self._gone_seconds += now_s - pod.created_s
        self._list_routed()
        self.place(now_s)

    def drain(self, pod: Pod, now_s: float) -> None:
        """Its engine is told to drain: unready at once, refusing after the grace."""
        if pod.answers(now_s) and pod.ready_s <= now_s and pod.drain_since_s is None:
            pod.drain_since_s, pod.ready_since_s = now_s, None
            self._tell_router(pod, now_s)

    def undo_drain(self, pod: Pod, now_s: float) -> bool:
        """Its engine is told to serve on; False where it does not answer, or ends."""
        if not (pod.answers(now_s) and pod.is_live):
            return False
        if pod.drain_since_s is not None:
            pod.drain_since_s, pod.ready_since_s = None, now_s
            self._tell_router(pod, now_s)
        return True

    def _delete(self, pod: Pod, now_s: float) -> None:
        """It is told to go: it drains first, and is cut off when its time is over."""
        pod.deleting_s = now_s
        if not pod.answers(now_s) or pod.ready_s > now_s:
            self._remove(pod, now_s)
            return
        self.drain(pod, now_s)
        self._see_off(pod, now_s + DRAIN_GRACE_SECONDS + self._config.drain_s, now_s)

    def _see_off(self, pod: Pod, last_s: float, now_s: float) -> None:
        if not pod.drain_state(now_s).done and now_s < last_s and not pod.is_lost:
            look: Callable[[float], None] = partial(self._see_off, pod, last_s)
            self._agenda.at(min(last_s, now_s + LOOK_EVERY_S), look)
            return
        self.cut += pod.end_requests(FAILED, now_s)
        self._remove(pod, now_s)

    def delivering(self, now_s: float) -> list[Pod]:
        """Pods whose series there are: all, and those that are gone while their series linger."""
        linger_s = self._faults.lingers_s(now_s)
        self._gone = [(pod, at_s) for pod, at_s in self._gone if now_s - at_s < linger_s]
        return [*self.pods, *(pod for pod, _ in self._gone)]

    @property
    def num_open(self) -> int:
        """Requests on their way."""
        return sum(pod.connections for pod in self.pods)

    def advance(self, now_s: float) -> None:
        """Lets all engines work up to now."""
        for pod in self.pods:
            pod.engine.advance(now_s)

    def replica_seconds(self, now_s: float) -> float:
        """Time of all pods from their making to their end, or until now."""
        return self._gone_seconds + sum(now_s - pod.created_s for pod in self.pods)


def _rank(now_s: float, pod: Pod) -> tuple[bool, bool, bool, bool, float, float]:
    """Whom a ReplicaSet lets go first: without a node, not running, unready, cheapest, youngest."""
    return (
        pod.has_node,
        pod.address_s <= now_s,
        pod.is_ready,
        pod.marked_s is None,
        -(pod.ready_since_s or 0.0),
        -pod.created_s,
    )
