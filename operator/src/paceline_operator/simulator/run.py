"""Runs a load against a simulated fleet that a control law steers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from math import inf

from paceline_operator.simulator.controller import Controller
from paceline_operator.simulator.fleet.actuation import Actuation
from paceline_operator.simulator.fleet.agenda import Agenda
from paceline_operator.simulator.fleet.clients import Clients
from paceline_operator.simulator.fleet.faults import (
    Autoscaled,
    Fault,
    Faults,
    NoRoom,
    OperatorAway,
    PodKilled,
    ScaleWritten,
    Speculating,
    StepsSlower,
)
from paceline_operator.simulator.fleet.fleet import Fleet
from paceline_operator.simulator.fleet.fleet_config import BEGIN_S, FleetConfig
from paceline_operator.simulator.generator import Generator
from paceline_operator.simulator.request import Request
from paceline_operator.simulator.result import Result, Sample
from paceline_operator.simulator.scoring.outcome import UNFINISHED

AUTOSCALER_EVERY_S = 15.0


def simulate(
    load: Iterable[Request],
    config: FleetConfig,
    controller: Controller,
    *,
    generator: Generator,
    faults: Iterable[Fault] = (),
    until_s: float | None = None,
    at_least_s: float = 0.0,
) -> Result:
    """Runs a load to its end.

    Args:
        load: Requests in the order of their arrival; each is taken when its time has come.
        config: The fleet's make.
        controller: Control law; a new one, since it remembers.
        generator: Chance: the same seed gives the same result.
        faults: What goes wrong.
        until_s: When to stop, from the load's beginning; None for once all is answered.
        at_least_s: How long the fleet is there, however early its last answer was whole.
    """
    world = World(config, controller, generator, faults)
    return world.run(iter(load), until_s, at_least_s)


class World:
    """Everything of one simulation.

    Args:
        config: The fleet's make.
        controller: Control law.
        generator: Chance.
        faults: What goes wrong.
    """

    def __init__(
        self,
        config: FleetConfig,
        controller: Controller,
        generator: Generator,
        faults: Iterable[Fault],
    ) -> None:
        self._config = config
        self._agenda = Agenda()
        self._faults = Faults(faults, BEGIN_S)
        self._clients = Clients(config, self._agenda, self._faults, generator)
        self._fleet = Fleet(config, self._agenda, self._faults, generator, self._clients.ended)
        self._actuation = Actuation(
            config, self._fleet, self._agenda, self._faults, generator, controller
        )
        self._samples: list[Sample] = []
        for fault in self._faults.all:
            self._expect(fault)

    def run(self, load: Iterator[Request], until_s: float | None, at_least_s: float) -> Result:
        """Runs it; once."""
        self._fleet.begin(BEGIN_S)
        self._agenda.at(BEGIN_S, self._scrape)
        last_s = inf if until_s is None else BEGIN_S + until_s
        least_s = min(BEGIN_S + at_least_s, last_s)
        agenda, fleet, send = self._agenda, self._fleet, self._clients.send
        request = next(load, None)
        now_s = BEGIN_S
        while request is not None or last_s < inf or fleet.num_open or agenda.next_s < least_s:
            arrival_s = inf if request is None else BEGIN_S + request.arrival_s
            event_s = agenda.next_s
            if min(arrival_s, event_s) > last_s:
                now_s = last_s
                break
            if request is not None and arrival_s < event_s:
                now_s = arrival_s
                send(request, fleet.routed, arrival_s)
                request = next(load, None)
            else:
                now_s = event_s
                agenda.run_next()
        return self._result(max(now_s, least_s))

    def _scrape(self, now_s: float) -> None:
        self._fleet.advance(now_s)
        self._actuation.measure(now_s)
        self._sample(now_s)
        self._agenda.at(now_s + self._config.scrape_interval_s, self._scrape)

    def _sample(self, now_s: float) -> None:
        pods, agreed = self._fleet.pods, self._actuation.agreed.knobs
        self._samples.append(
            Sample(
                time_s=now_s - BEGIN_S,
                desired=self._actuation.target,
                existing=len(pods),
                ready=sum(pod.is_ready for pod in pods),
                budget=agreed.max_num_batched_tokens,
                running_seqs=agreed.max_num_running_seqs,
                ended=len(self._clients.ledger.outcomes),
                good=self._clients.ledger.good,
            )
        )

    def _expect(self, fault: Fault) -> None:
        """Puts down what a fault does at its moments; the rest is asked for when it matters."""
        at, fleet = self._agenda.at, self._fleet
        match fault:
            case PodKilled():
                at(fault.at_s, partial(fleet.kill, fault))
            case ScaleWritten():
                at(fault.at_s, partial(fleet.write_scale, fault.replicas, fault.manager))
            case Autoscaled():
                at(fault.start_s, partial(self._autoscale, fault))
            case OperatorAway():
                at(fault.start_s, self._actuation.leave)
                at(fault.end_s, self._actuation.resume)
            case NoRoom():
                at(fault.end_s, fleet.place)
            case StepsSlower() | Speculating():
                at(fault.start_s, fleet.pace_all)
                at(fault.end_s, fleet.pace_all)
            case _:
                pass

    def _autoscale(self, fault: Autoscaled, now_s: float) -> None:
        if fault.holds(now_s):
            if self._fleet.scale != fault.replicas:
                self._fleet.write_scale(fault.replicas, fault.name, now_s)
            self._agenda.at(now_s + AUTOSCALER_EVERY_S, partial(self._autoscale, fault))

    def _result(self, now_s: float) -> Result:
        fleet, ledger = self._fleet, self._clients.ledger
        seconds = fleet.replica_seconds(now_s)
        for pod in fleet.pods:
            pod.end_requests(UNFINISHED, now_s)
        return Result(
            outcomes=ledger.outcomes,
            refusals=ledger.refusals,
            cut=fleet.cut,
            replica_seconds=seconds,
            length_s=now_s - BEGIN_S,
            samples=self._samples,
            moves=self._actuation.moves,
            pushes=self._actuation.pushes,
        )
