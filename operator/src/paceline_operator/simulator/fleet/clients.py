"""The clients of a simulated fleet and the router before it."""

from __future__ import annotations

from collections.abc import Sequence

from paceline_operator.simulator.fleet.agenda import Agenda
from paceline_operator.simulator.fleet.faults import Faults
from paceline_operator.simulator.fleet.fleet_config import FleetConfig
from paceline_operator.simulator.fleet.ledger import UNSERVED, Ledger
from paceline_operator.simulator.fleet.pods import Pod
from paceline_operator.simulator.fleet.router import LeastConnections, Skewed, router
from paceline_operator.simulator.generator import Generator
from paceline_operator.simulator.metering.meter import NO_LOAD
from paceline_operator.simulator.request import Request
from paceline_operator.simulator.sink import Served

RETRIES = 3
"""Other pods that the router tries where one refuses because it drains, or is gone."""


class Clients:
    """Send requests through the router, wait, and may leave.

    Args:
        config: The fleet's make.
        agenda: Where they put down when they leave.
        faults: What goes wrong.
        generator: Chance.

    Attributes:
        ledger: What became of every request.
    """

    def __init__(
        self, config: FleetConfig, agenda: Agenda, faults: Faults, generator: Generator
    ) -> None:
        self._agenda = agenda
        self._faults = faults
        self._timeout_s = config.timeout_s
        self._patience_s = config.patience_s
        self._generator = generator
        self._router = router(config.routing, generator)
        self._others = LeastConnections()
        self._turn = 0
        self._next_id = 0
        self.ledger = Ledger(config.objectives)

    def send(self, request: Request, pods: Sequence[Pod], now_s: float) -> None:
        """A client sends a request.

        Args:
            request: What it sends.
            pods: Those that the router knows, oldest first.
            now_s: When.
        """
        pod = self._find(pods, now_s)
        if pod is None:
            self.ledger.refused(request, UNSERVED)
            return
        request_id = self._next_id
        self._next_id = request_id + 1
        reason = pod.engine.submit(request, request_id, now_s)
        if reason not in NO_LOAD:
            pod.meter.received(request.tier, request.prompt_tokens)
        if reason is not None:
            pod.meter.refused(request.tier, reason)
            self.ledger.refused(request, reason)
            return
        pod.open.add(request_id)
        pod.connections += 1
        self._turn = pod.turn = self._turn + 1
        self._lose_patience(pod, request_id, now_s)

    def ended(self, pod: Pod, served: Served, outcome: str) -> None:
        """An engine is done with a request."""
        pod.open.discard(served.id)
        pod.unanswered.discard(served.id)
        pod.connections -= 1
        self._turn = pod.turn = self._turn + 1
        self.ledger.ended(served, pod.verdict or outcome)

    def _find(self, pods: Sequence[Pod], now_s: float) -> Pod | None:
        """The pod that takes a request; others are tried where one does not."""
        chooser, skew = self._router, self._faults.skew(now_s)
        if skew is not None:
            chooser = Skewed(skew, self._others, self._generator)
        for _ in range(1 + RETRIES):
            if not pods:
                break
            pod = chooser.choose(pods, now_s)
            if pod.accepts(now_s):
                return pod
            pods = [other for other in pods if other is not pod]
        return None

    def _lose_patience(self, pod: Pod, request_id: int, now_s: float) -> None:
        """Puts down when the client leaves: for want of a first token, or of the whole answer."""
        for after_s, open_ids in (
            (self._patience_s, pod.unanswered),
            (self._timeout_s, pod.open),
        ):
            if after_s is not None:
                open_ids.add(request_id)
                self._agenda.at(now_s + after_s, Leaving(pod, request_id, open_ids))


class Leaving:
    """A client that leaves unless something has happened to its request.

    Args:
        pod: Where it is.
        request_id: Which.
        open_ids: Requests to which it has not happened yet.
    """

    __slots__ = ("_open_ids", "_pod", "_request_id")

    def __init__(self, pod: Pod, request_id: int, open_ids: set[int]) -> None:
        self._pod = pod
        self._request_id = request_id
        self._open_ids = open_ids

    def __call__(self, now_s: float) -> None:
        """The moment has come."""
        engine = self._pod.engine
        engine.advance(now_s)
        if self._request_id in self._open_ids:
            engine.abort(self._request_id, now_s)
