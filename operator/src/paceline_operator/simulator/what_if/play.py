"""One run: a load, a spec, and chance, to figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from typing_extensions import override

from paceline_operator.api.v1alpha1 import InferenceServiceSpec
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.autopilot.vocabulary.policy import Policy
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
        at: Hears at every scrape how much has been played, in seconds.
    """
    policy = steering_policy(stage.spec, stage.facts)
    config = fleet_config(stage.spec, stage.facts, stage.running)
    sent = _Sent(requests, from_s=lead_s, too_long=config.engine.max_request_tokens)
    watched = _Watched(policy, at, from_s=lead_s, until_s=lead_s + span_s)
    result = simulate(
        sent,
        config,
        watched,
        generator=generator,
        at_least_s=lead_s + span_s,
    )
    found = figures(
        result,
        policy.objectives,
        lead_s=lead_s,
        span_s=span_s,
        sample_s=config.scrape_interval_s,
    )
    return replace(
        found,
        never_served=sent.never_served,
        infeasible_share=watched.infeasible / max(1, watched.asked),
        infeasible_message=watched.infeasible_message,
    )


class _Sent:
    """Requests that are passed on.

    Args:
        requests: In order of arrival.
        from_s: Those from then on are counted.
        too_long: Tokens of a prompt that no engine takes.

    Attributes:
        never_served: Those of them that no engine takes.
    """

    def __init__(self, requests: Iterable[Request], *, from_s: float, too_long: int) -> None:
        self._requests, self._from_s, self._too_long = requests, from_s, too_long
        self.never_served = 0

    def __iter__(self) -> Iterator[Request]:
        for request in self._requests:
            yield request
            if request.prompt_tokens >= self._too_long and request.arrival_s >= self._from_s:
                self.never_served += 1


class _Watched(AutopilotController):
    """The control law; tells when it is asked, and keeps what it said of objectives.

    Args:
        policy: Objectives, autonomy and limits.
        at: Hears how much has been played, in seconds.
        from_s: What is said from then on counts.
        until_s: And until then.

    Attributes:
        asked: How often it was asked then, which is at equal distances.
        infeasible: How often it said that objectives cannot be met.
        infeasible_message: What it said of that last.
    """

    def __init__(
        self, policy: Policy, at: Callable[[float], None], *, from_s: float, until_s: float
    ) -> None:
        super().__init__(policy)
        self._at, self._from_s, self._until_s = at, from_s, until_s
        self.asked, self.infeasible, self.infeasible_message = 0, 0, ""

    @override
    def decide(self, fleet: FleetObservation, now_s: float) -> Orders:
        played_s = now_s - BEGIN_S
        self._at(played_s)
        orders = super().decide(fleet, now_s)
        if self._from_s <= played_s < self._until_s:
            self._count()
        return orders

    def _count(self) -> None:
        self.asked += 1
        if self.last_tick is not None and self.last_tick.feasibility.feasible is False:
            self.infeasible += 1
            self.infeasible_message = self.last_tick.feasibility.message
