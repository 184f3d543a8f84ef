"""The operator of a simulated fleet: measures, asks a control law, and carries out what it says.

The order of one pass and all rules are the operator's own: who leaves, and when a foreign
write counts, is decided by the same pure code.
"""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Protocol, runtime_checkable

from paceline_operator.autopilot.vocabulary.decision import Knob
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.domain import ownership, scale_in
from paceline_operator.domain.pods import PodView
from paceline_operator.domain.tunables import Agreed
from paceline_operator.simulator.controller import Controller, Orders
from paceline_operator.simulator.fleet.agenda import Agenda
from paceline_operator.simulator.fleet.faults import Faults
from paceline_operator.simulator.fleet.fleet import Fleet
from paceline_operator.simulator.fleet.fleet_config import BEGIN_S, FleetConfig
from paceline_operator.simulator.fleet.pods import TEMPLATE
from paceline_operator.simulator.fleet.pushes import Pushes
from paceline_operator.simulator.fleet.scrape import Scraper
from paceline_operator.simulator.generator import Generator
from paceline_operator.simulator.result import Move

FAST_S = 1.0
"""To the next pass while something is under way."""
RETRY_DRAIN_S = 60.0
MAX_PATIENCE_S = 3600.0


@runtime_checkable
class Remembering(Protocol):
    """A control law that is told more than what it sees."""

    def disturbed(self, now_s: float) -> None:
        """Somebody else wrote replicas."""

    def restarted(self) -> None:
        """Another process goes on."""


class Actuation:
    """One operator after another.

    Args:
        config: The fleet's make.
        fleet: The fleet.
        agenda: Where it puts down what follows.
        faults: What goes wrong.
        generator: Chance.
        controller: Control law.

    Attributes:
        target: Replicas wanted.
        agreed: Live values every engine should run with.
        moves: All that was moved.
    """

    def __init__(
        self,
        config: FleetConfig,
        fleet: Fleet,
        agenda: Agenda,
        faults: Faults,
        generator: Generator,
        controller: Controller,
    ) -> None:
        self._config = config
        self._fleet = fleet
        self._agenda = agenda
        self._faults = faults
        self._generator = generator
        self._controller = controller
        self._is_away = False
        self._looks_s = -inf
        self._writers: tuple[ownership.Write, ...] = ()
        self._autoscaler: tuple[str | None, float] = None, -inf
        self.target = fleet.scale
        self.agreed = fleet.starting
        self.moves: list[Move] = []
        self._forget()

    def _forget(self) -> None:
        self._scraper = Scraper(self._config.scrape_interval_s, self._faults)
        self._pushes = Pushes(
            self._fleet, self._agenda, self._faults, self._generator, self._config.tunables_delay_s
        )
        self._retry_drain_s = 0.0
        self._is_scaling = False

    @property
    def pushes(self) -> int:
        """Pushes of live values by the operator that works now."""
        return self._pushes.sent

    def leave(self, _now_s: float) -> None:
        """The process ends."""
        self._is_away = True

    def resume(self, _now_s: float) -> None:
        """Another one begins with what the cluster keeps: the status, marks, `/scale`."""
        self._is_away = False
        self._forget()
        if not any(pod.is_live and pod.marked_s is not None for pod in self._fleet.pods):
            self.target = self._fleet.scale
        if isinstance(self._controller, Remembering):
            self._controller.restarted()

    def measure(self, now_s: float) -> None:
        """A round of measuring is due, and the pass that follows it."""
        if self._is_away:
            return
        if self._controller.next_due_s < inf:
            listed = [pod.view(now_s) for pod in self._fleet.pods]
            self._scraper.round(listed, self._fleet.delivering(now_s), now_s)
        self._pass(now_s, is_measured=True)

    def _look(self, now_s: float) -> None:
        if not self._is_away:
            self._pass(now_s, is_measured=False)

    def _pass(self, now_s: float, *, is_measured: bool) -> None:
        yielded = self._yielded(now_s)
        views = tuple(pod.view(now_s) for pod in self._fleet.pods)
        self._pushes.ask(now_s)
        drains = self._drains(now_s)
        if is_measured and self._controller.next_due_s <= now_s:
            self._follow(self._consult(views, yielded, now_s), yielded, now_s)
        is_busy = self._pushes.send(self.agreed, now_s)
        moves = self._moves(views, drains, yielded, now_s)
        self._carry_out(moves, now_s)
        is_draining = moves.begin or moves.undo or (moves.waiting and drains)
        if is_busy or is_draining:
            self._look_again(now_s)

    def _look_again(self, now_s: float) -> None:
        if self._looks_s <= now_s:
            self._looks_s = now_s + FAST_S
            self._agenda.at(self._looks_s, self._look)

    def _yielded(self, now_s: float) -> dict[str, str]:
        """Notes foreign writes; returns the writer that replicas are left to."""
        fleet, autoscaler = self._fleet, self._autoscaler_seen(now_s)
        if fleet.writer is None and not self._writers and autoscaler is None:
            return {}
        self._writers, new = ownership.noted(self._writers, fleet.writer, fleet.scale, now_s)
        fighter = autoscaler or ownership.fighter(self._writers, now_s)
        if new is not None and isinstance(self._controller, Remembering):
            self._controller.disturbed(now_s)
        if new is not None or fighter is not None:
            self.target = fleet.scale
        return {} if fighter is None else {Knob.REPLICAS.value: fighter}

    def _autoscaler_seen(self, now_s: float) -> str | None:
        """One that targets the Deployment, or did lately."""
        found = self._faults.autoscaler(now_s)
        if found is not None:
            self._autoscaler = found, now_s
        name, seen_s = self._autoscaler
        return name if now_s - seen_s <= ownership.WINDOW_S else None

    def _drains(self, now_s: float) -> dict[str, scale_in.DrainState]:
        return {
            pod.uid: pod.drain_state(now_s)
            for pod in self._fleet.pods
            if pod.marked_s is not None and pod.is_live and pod.answers(now_s)
        }

    def _consult(self, views: tuple[PodView, ...], yielded: dict[str, str], now_s: float) -> Orders:
        left, manager = dict(yielded), ownership.adopted(self._writers, now_s)
        if manager is not None:
            left.setdefault(Knob.REPLICAS.value, manager)
        seen = FleetObservation(
            now_s=now_s,
            pods=tuple(self._scraper.observe(view, self._pushes.reports, now_s) for view in views),
            slices=self._scraper.slices,
            desired_replicas=self.target,
            desired_tunables=self.agreed.knobs,
            template_hash=TEMPLATE,
            yielded=left,
        )
        return self._controller.decide(seen, now_s)

    def _follow(self, orders: Orders, yielded: dict[str, str], now_s: float) -> None:
        wanted = orders.replicas
        if wanted is not None and wanted != self.target and not yielded:
            self._note(Knob.REPLICAS, self.target, wanted, orders.reason, now_s)
            self.target = wanted
        knobs, before = orders.tunables, self.agreed.knobs
        if knobs is None or (knobs, orders.trial) == (before, self.agreed.trial):
            return
        self._note(Knob.BUDGET, before.max_num_batched_tokens, knobs.max_num_batched_tokens,
                   orders.reason, now_s)  # fmt: skip
        self._note(Knob.RUNNING_SEQS, before.max_num_running_seqs, knobs.max_num_running_seqs,
                   orders.reason, now_s)  # fmt: skip
        self._note(Knob.STEP_TIME, _whole_us(before.step_time_target_ms),
                   _whole_us(knobs.step_time_target_ms), orders.reason, now_s)  # fmt: skip
        self.agreed = Agreed(self.agreed.revision + 1, knobs, trial=orders.trial)

    def _note(self, knob: Knob, before: int, after: int, reason: str, now_s: float) -> None:
        if before != after:
            self.moves.append(Move(now_s - BEGIN_S, knob, before, after, reason))

    def _moves(
        self,
        views: tuple[PodView, ...],
        drains: dict[str, scale_in.DrainState],
        yielded: dict[str, str],
        now_s: float,
    ) -> scale_in.Moves:
        marked = tuple(v for v in views if v.live and v.draining_since_s is not None)
        if (self.target == self._fleet.scale and not marked) or self._is_scaling:
            return scale_in.Moves()
        if yielded:
            return scale_in.Moves(undo=marked)
        slowest_s = self._config.cold_start_s * (1.0 + self._config.cold_start_jitter)
        fleet = scale_in.Fleet(
            pods=views,
            target=self.target,
            scale=self._fleet.scale,
            loads=self._scraper.loads(now_s),
            lost=self._scraper.lost(views, now_s),
            drains=drains,
            drain_s=self._config.drain_s,
            patience_s=min(MAX_PATIENCE_S, 2.0 * slowest_s),
            retry_at_s=self._retry_drain_s,
        )
        return scale_in.plan(fleet, now_s)

    def _carry_out(self, moves: scale_in.Moves, now_s: float) -> None:
        by_uid = {pod.uid: pod for pod in self._fleet.pods}
        for view in moves.undo:
            if self._fleet.undo_drain(by_uid[view.uid], now_s):
                by_uid[view.uid].marked_s = None
        for view in moves.begin:
            pod = by_uid[view.uid]
            pod.marked_s = now_s if pod.marked_s is None else pod.marked_s
            self._fleet.drain(pod, now_s)
        if moves.expired:
            self._retry_drain_s = now_s + RETRY_DRAIN_S
        if moves.scale is not None:
            self._is_scaling = True
            write = partial(self._scale, self._fleet.scale, moves.scale)
            self._agenda.at(now_s + self._config.scale_delay_s, write)

    def _scale(self, seen: int, replicas: int, now_s: float) -> None:
        """Writes `/scale`, unless it is no more what was seen of it."""
        self._is_scaling = False
        if self._fleet.scale == seen:
            self._fleet.write_scale(replicas, None, now_s)


def _whole_us(step_time_ms: float | None) -> int:
    return round(1e3 * (step_time_ms or 0.0))
