"""Live values on their way from an operator to the engines of a simulated fleet."""

from __future__ import annotations

from functools import partial
from math import inf

from paceline_operator.autopilot.vocabulary.fleet import PodTunables
from paceline_operator.domain.tunables import Agreed, runs_with
from paceline_operator.simulator.fleet.agenda import Agenda
from paceline_operator.simulator.fleet.faults import Faults, PushesIgnored, ValuesKept
from paceline_operator.simulator.fleet.fleet import Fleet
from paceline_operator.simulator.fleet.pods import Pod
from paceline_operator.simulator.generator import Generator

FIRST_WAIT_S = 1.0
MAX_WAIT_S = 60.0


class Pushes:
    """What one operator knows of engines' live values, and sends them.

    Args:
        fleet: The fleet.
        agenda: Where it puts down when a push arrives.
        faults: What goes wrong.
        generator: Chance.
        delay_s: From a push to its arrival.

    Attributes:
        reports: UID -> what an engine reported last.
        sent: Pushes so far.
    """

    def __init__(
        self, fleet: Fleet, agenda: Agenda, faults: Faults, generator: Generator, delay_s: float
    ) -> None:
        self._fleet = fleet
        self._agenda = agenda
        self._faults = faults
        self._generator = generator
        self._delay_s = delay_s
        self._waits: dict[str, tuple[int, float]] = {}
        self.reports: dict[str, PodTunables] = {}
        self.sent = 0

    def ask(self, now_s: float) -> None:
        """Asks engines that are ready and have not said yet what they run with."""
        known = {pod.uid for pod in self._fleet.pods}
        self.reports = {uid: report for uid, report in self.reports.items() if uid in known}
        for pod in self._fleet.pods:
            if pod.uid not in self.reports and pod.is_ready and pod.answers(now_s):
                self.reports[pod.uid] = pod.report()

    def send(self, agreed: Agreed, now_s: float) -> bool:
        """Sends values to engines that report others; returns whether there were any."""
        behind = [pod for pod in self._fleet.pods if self._is_behind(pod, agreed, now_s)]
        self.sent += len(behind)
        for pod in behind:
            tries = self._waits.get(pod.uid, (0, 0.0))[0]
            self._waits[pod.uid] = tries, inf
            self._agenda.at(now_s + self._delay_s, partial(self._arrive, pod, agreed))
        self._keep_for_start(agreed)
        return bool(behind)

    def _is_behind(self, pod: Pod, agreed: Agreed, now_s: float) -> bool:
        report = self.reports.get(pod.uid)
        if report is None or runs_with(report, agreed.of_pod(pod.uid)) or not pod.is_live:
            return False
        return self._waits.get(pod.uid, (0, 0.0))[1] <= now_s

    def _arrive(self, pod: Pod, agreed: Agreed, now_s: float) -> None:
        loss = self._faults.push_loss(pod.number, now_s)
        if not pod.answers(now_s) or (loss and self._generator.random() < loss):
            self._wait(pod, now_s)
            return
        own = agreed.of_pod(pod.uid)
        if self._faults.hits(PushesIgnored, pod.number, now_s):
            pod.pretend(own.knobs, agreed.revision)
        elif self._faults.hits(ValuesKept, pod.number, now_s):
            pod.revision = agreed.revision
        else:
            pod.tune(own.knobs, agreed.revision, now_s)
        # Taken between two steps, and answered then.
        between_s = pod.engine.next_event_s
        self._agenda.at(
            between_s if between_s < inf else now_s, partial(self._answered, pod, agreed)
        )

    def _answered(self, pod: Pod, agreed: Agreed, now_s: float) -> None:
        pod.engine.advance(now_s)
        self.reports[pod.uid] = pod.report()
        if runs_with(self.reports[pod.uid], agreed.of_pod(pod.uid)):
            self._waits.pop(pod.uid, None)
        else:
            self._wait(pod, now_s)

    def _wait(self, pod: Pod, now_s: float) -> None:
        """Leaves it alone for a while, longer each time."""
        tries = self._waits.get(pod.uid, (0, 0.0))[0]
        self._waits[pod.uid] = tries + 1, now_s + min(MAX_WAIT_S, FIRST_WAIT_S * 2.0**tries)

    def _keep_for_start(self, agreed: Agreed) -> None:
        """New engines begin with the newest values that every ready one runs with."""
        ready = [pod.uid for pod in self._fleet.pods if pod.is_live and pod.is_ready]
        reports = [(uid, self.reports.get(uid)) for uid in ready]
        if all(each is not None and runs_with(each, agreed.of_pod(uid)) for uid, each in reports):
            self._fleet.starting = agreed
