"""One run: a load, a spec, and chance, to figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from typing_extensions import override

from paceline_operator.api.v1alpha1 import InferenceServiceSpec
from paceline_operator.autopilot.fleet import FleetObservation
from paceline_operator.autopilot.policy import Policy
from paceline_operator.simulator.autopilot_controller import AutopilotController
from paceline_operator.simulator.controller import Orders
from paceline_operator.simulator.fleet.fleet_config import BEGIN_S
from paceline_operator.simulator.generator import Generator
from paceline_operator.simulator.request import Request
from paceline_operator.simulator.run import simulate
from paceline_operator.simulator.what_if.engine_facts import EngineFacts
from paceline_operator.simulator.what_if.figures import Figures, figures
from paceline_operator.simulator.what_if.fleet import fleet_config, steering_policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A fleet to play on.

    Attributes:
        spec: What it is asked to be.
        facts: What the spec does not say.
        running: Replicas that serve when it begins, None for those the spec begins with.
    """

    spec: InferenceServiceSpec
    facts: EngineFacts
    running: int | None = None


def play(
    stage: Stage,
    requests: Iterable[Request],
    *,
    lead_s: float,
    span_s: float,
    generator: Generator,
    at: Callable[[float], None],
) -> Figures:
    """Plays a load that has its lead-in in front of it, until its time is over and all is answered.

    Args:
        stage: The fleet.
        requests: In order of arrival.
        lead_s: Length of the lead-in.
        span_s: Length of the load after it.
        generator: Chance of router and starts.
        at: Hears often how much has been played, in seconds; while nothing is sent, too.
    """
    policy = steering_policy(stage.spec, stage.facts)
    config = fleet_config(stage.spec, stage.facts, stage.running)
    watched = _watched(requests, at)
    result = simulate(
        _held_open(watched, lead_s + span_s, config.engine.max_request_tokens),
        config,
        _Watched(policy, at),
        generator=generator,
    )
    return figures(
        result,
        policy.objectives,
        lead_s=lead_s,
        span_s=span_s,
        sample_s=config.scrape_interval_s,
    )


def _held_open(requests: Iterable[Request], end_s: float, too_long: int) -> Iterator[Request]:
    """The requests, and at the end of the load's time one that no engine takes.

    A simulation is over when nothing is open and nothing comes any more. A fleet is paid for
    until the end of the load's time, however early its last answer was whole.
    """
    yield from requests
    yield Request(end_s, too_long, 1)


def _watched(requests: Iterable[Request], at: Callable[[float], None]) -> Iterator[Request]:
    """The requests; tells of each when the next is asked for: that is when it has been sent."""
    for request in requests:
        yield request
        at(request.arrival_s)


class _Watched(AutopilotController):
    """The control law; tells when it is asked."""

    def __init__(self, policy: Policy, at: Callable[[float], None]) -> None:
        super().__init__(policy)
        self._at = at

    @override
    def decide(self, fleet: FleetObservation, now_s: float) -> Orders:
        self._at(now_s - BEGIN_S)
        return super().decide(fleet, now_s)
