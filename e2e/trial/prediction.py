"""What the simulator says of a load before real engines serve it: same spec, same arrivals."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import yaml

from e2e.load.plan import PlannedRequest
from e2e.trial.figures import Figures, Share, replica_hours
from paceline_operator.api.v1alpha1 import InferenceServiceSpec, SloMetric
from paceline_operator.autopilot.vocabulary.policy import Objective, Policy, policy_from_spec
from paceline_operator.simulator.autopilot_controller import AutopilotController
from paceline_operator.simulator.fleet.fleet_config import FleetConfig
from paceline_operator.simulator.request import Request
from paceline_operator.simulator.result import Result
from paceline_operator.simulator.run import simulate
from paceline_operator.simulator.scoring.outcome import Outcome
from paceline_operator.simulator.scoring.score import overall
from paceline_operator.simulator.scoring.yardstick import Yardstick
from paceline_operator.simulator.what_if.engine_facts import Said, engine_facts
from paceline_operator.simulator.what_if.fleet import fleet_config

SEED = 1
SETTLE_S = 60.0
"""Simulated beyond the judged time, so that its last requests end."""


def read_spec(path: Path) -> InferenceServiceSpec:
    """Spec of the manifest in a file."""
    return InferenceServiceSpec.model_validate(yaml.safe_load(path.read_text())["spec"])


def fleet(spec: InferenceServiceSpec, cold_start_s: float) -> FleetConfig:
    """The fleet as the operator makes it for a spec, by the step time of the profile it names."""
    said = Said(cold_start_s=cold_start_s)
    longest = spec.engine.max_model_len or 1
    return fleet_config(spec, engine_facts(spec, said, None, longest))


def requests_of(planned: Iterable[PlannedRequest], idle_s: float) -> Iterator[Request]:
    """The plan in the simulator's form, begun after `idle_s`; prompts share nothing."""
    return (
        Request(idle_s + each.offset_s, each.prompt_tokens, each.max_tokens) for each in planned
    )


def predict(
    spec: InferenceServiceSpec,
    planned: Sequence[PlannedRequest],
    *,
    cold_start_s: float,
    idle_s: float,
    until_s: float,
) -> Figures:
    """Simulates a load on a fleet that the operator's control law steers.

    Args:
        spec: Of the fleet.
        planned: The load; beyond `until_s` it goes on, as it does on the cluster.
        cold_start_s: From a pod made to one that is ready.
        idle_s: How long the fleet is ready before the load begins. A law that has seen itself
            without load waits for another moment of its loops than one that begins with it.
        until_s: End of the time that is judged, from when the load begins.
    """
    policy = policy_from_spec(spec)
    result = simulate(
        requests_of(planned, idle_s),
        fleet(spec, cold_start_s),
        AutopilotController(policy),
        generator=random.Random(SEED),
        until_s=idle_s + until_s + SETTLE_S,
    )
    return figures_of(result, policy, (idle_s, idle_s + until_s))


def figures_of(result: Result, policy: Policy, span_s: tuple[float, float]) -> Figures:
    """The figures of what was sent, and paid for, between two times."""
    from_s, until_s = span_s
    judged = [outcome for outcome in result.outcomes if outcome.arrival_s < until_s]
    yardstick = Yardstick(policy.objectives)
    good = overall(judged, yardstick.goodput)
    ready = [sample.ready for sample in result.samples if from_s <= sample.time_s < until_s]
    return Figures(
        ttft=_share(judged, yardstick, policy.of_metric(SloMetric.TTFT)[0]),
        itl=_share(judged, yardstick, policy.of_metric(SloMetric.ITL)[0]),
        goodput=Share(good.good, good.total),
        replica_hours=replica_hours([(s.time_s, s.existing) for s in result.samples], *span_s),
        replicas_least=min(ready, default=0),
        replicas_most=max(ready, default=0),
    )


def _share(judged: Sequence[Outcome], yardstick: Yardstick, objective: Objective) -> Share:
    score = overall(judged, lambda outcome: yardstick.samples(objective, outcome))
    return Share(score.good, score.total)
