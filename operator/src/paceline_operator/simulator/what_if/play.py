"""One run: a load, a spec, and chance, to figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from paceline_operator.api.v1alpha1 import InferenceServiceSpec
from paceline_operator.simulator.autopilot_controller import AutopilotController
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
) -> Figures:
    """Plays a load that has its lead-in in front of it.

    Args:
        stage: The fleet.
        requests: In order of arrival.
        lead_s: Length of the lead-in.
        span_s: Length of the load after it.
        generator: Chance of router and starts.
    """
    policy = steering_policy(stage.spec, stage.facts)
    config = fleet_config(stage.spec, stage.facts, stage.running)
    result = simulate(
        requests,
        config,
        AutopilotController(policy),
        generator=generator,
    )
    return figures(
        result,
        policy.objectives,
        lead_s=lead_s,
        span_s=span_s,
        sample_s=config.scrape_interval_s,
    )
