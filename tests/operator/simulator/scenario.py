"""A failure mode as a run: the control law as it ships, on a simulated fleet."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from typing_extensions import override

from paceline_operator.api.v1alpha1 import Mode, SloMetric
from paceline_operator.autopilot.vocabulary.decision import Decision, Knob, Tick
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.autopilot.vocabulary.policy import Objective, Policy
from paceline_operator.simulator.autopilot_controller import AutopilotController
from paceline_operator.simulator.controller import Orders
from paceline_operator.simulator.engine_config import EngineConfig
from paceline_operator.simulator.fleet.faults import Fault
from paceline_operator.simulator.fleet.fleet_config import BEGIN_S, FleetConfig
from paceline_operator.simulator.law import StepLaw
from paceline_operator.simulator.loads.lengths import LogNormal, LogNormalLengths
from paceline_operator.simulator.loads.load import Load
from paceline_operator.simulator.loads.rates import Rates
from paceline_operator.simulator.loads.single_turns import SingleTurns, Stage
from paceline_operator.simulator.profiles import find_profile
from paceline_operator.simulator.result import Move, Result, recovery_s
from paceline_operator.simulator.run import simulate
from paceline_operator.simulator.scoring.score import overall
from paceline_operator.simulator.scoring.yardstick import Yardstick

SLOW_LAW = StepLaw(
    base_ms=60.0, per_prefill_token_ms=0.6, per_decode_row_ms=0.6, per_kv_token_ms=0.0003
)
"""About four times the steps of a 70B model on four A100: as many replicas for a quarter of the
requests, so that hours of it take seconds."""
LARGE = "llama-3-70b-a100-tp4"
SMALL = "llama-3-8b-a100"
MINUTES_10_S = 600.0
TTFT, ITL = "first-token", "cadence"


@dataclass(frozen=True, slots=True)
class Moment:
    """One question to the control law, and its answer."""

    time_s: float
    seen: FleetObservation
    tick: Tick

    def decisions(self, knob: Knob) -> list[Decision]:
        return [each for each in self.tick.decisions if each.knob is knob]


class Recorded(AutopilotController):
    """The product's law, with all that it saw and said."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.moments: list[Moment] = []

    @override
    def decide(self, fleet: FleetObservation, now_s: float) -> Orders:
        orders = super().decide(fleet, now_s)
        assert self.last_tick is not None
        self.moments.append(Moment(now_s - BEGIN_S, fleet, self.last_tick))
        return orders


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Engines, their objectives and limits; what is not said is as shipped."""

    profile: str = LARGE
    ttft_ms: int = 10_000
    itl_ms: int = 400
    ceiling: int = 2048
    initial: int | None = None
    max_num_seqs: int = 128
    law: StepLaw | None = SLOW_LAW
    replicas: int = 2
    most: int = 24
    cold_start_s: float = 120.0
    policy: dict[str, Any] = field(default_factory=dict)
    fleet: dict[str, Any] = field(default_factory=dict)
    engine: dict[str, Any] = field(default_factory=dict)

    @property
    def objectives(self) -> tuple[Objective, ...]:
        return (
            Objective(name=TTFT, metric=SloMetric.TTFT, target_ms=self.ttft_ms),
            Objective(name=ITL, metric=SloMetric.ITL, target_ms=self.itl_ms),
        )

    def config(self) -> FleetConfig:
        known = find_profile(self.profile)
        given: dict[str, Any] = {
            "law": self.law or known.law,
            "num_kv_blocks": known.kv_capacity_tokens // 16,
            "max_model_len": 262_144,
            "max_num_batched_tokens": self.ceiling,
            "max_num_seqs": self.max_num_seqs,
            "initial_batched_tokens": self.initial or self.ceiling,
            "initial_running_seqs": self.max_num_seqs,
            **self.engine,
        }
        more: dict[str, Any] = {
            "engine": EngineConfig(**given),
            "objectives": self.objectives,
            "initial_replicas": self.replicas,
            "cold_start_s": self.cold_start_s,
            **self.fleet,
        }
        return FleetConfig(**more)

    def law_policy(self) -> Policy:
        given: dict[str, Any] = {
            "objectives": self.objectives,
            "scaling_mode": Mode.AUTO,
            "max_replicas": self.most,
            "batch_max": self.ceiling,
            "batch_initial": self.initial or self.ceiling,
            "max_num_seqs": self.max_num_seqs,
            "cold_start_prior_s": self.cold_start_s,
            **self.policy,
        }
        return Policy(**given)


@dataclass(frozen=True, slots=True)
class Run:
    """What a run brought."""

    service: Service
    result: Result
    law: Recorded

    def moves(self, knob: Knob, from_s: float = 0.0, to_s: float = float("inf")) -> list[Move]:
        return [m for m in self.result.of_knob(knob) if from_s <= m.time_s < to_s]

    def desired(self, from_s: float = 0.0, to_s: float = float("inf")) -> list[int]:
        """Replicas wanted, by scrape."""
        return [s.desired for s in self.result.samples if from_s <= s.time_s < to_s]

    def budgets(self, from_s: float = 0.0, to_s: float = float("inf")) -> list[int]:
        return [s.budget for s in self.result.samples if from_s <= s.time_s < to_s]

    def goodput(self, from_s: float = 0.0, to_s: float = float("inf")) -> float:
        """Share of interactive requests, by arrival, that met every objective."""
        yardstick = Yardstick(self.service.objectives)
        within = [
            each for each in self.result.outcomes
            if from_s <= each.arrival_s < to_s and each.tier == "interactive"
        ]  # fmt: skip
        return overall(within, yardstick.goodput).share

    def late_s(self, step_s: float) -> float | None:
        """From a step of the load until 95 % of the first tokens are in time again."""
        objective, yardstick = self.service.objectives[0], Yardstick(self.service.objectives)
        found = [each for each in self.result.outcomes if each.tier == "interactive"]
        return recovery_s(
            found, lambda each: yardstick.samples(objective, each), step_s=step_s, share=0.95
        )

    def moments(self, from_s: float = 0.0, to_s: float = float("inf")) -> list[Moment]:
        return [m for m in self.law.moments if from_s <= m.time_s < to_s]

    def decisions(
        self, knob: Knob, from_s: float = 0.0, to_s: float = float("inf")
    ) -> list[Decision]:
        return [d for m in self.moments(from_s, to_s) for d in m.decisions(knob)]

    def figures(self) -> list[float]:
        """Every number that went into a decision, or was estimated."""
        found: list[float] = []
        for moment in self.law.moments:
            for decision in moment.tick.decisions:
                found += [v for v in decision.inputs.values() if isinstance(v, int | float)]
            if moment.tick.estimate is not None:
                values = asdict(moment.tick.estimate).values()
                found += [v for v in values if isinstance(v, int | float)]
        return found

    def reversals(self, knob: Knob) -> int:
        return self.result.most_reversals(knob)

    def most_moves(self, knob: Knob, window_s: float = MINUTES_10_S) -> int:
        """Most moves within any stretch of that length."""
        times_s = [move.time_s for move in self.result.of_knob(knob)]
        counts = [sum(start <= t < start + window_s for t in times_s) for start in times_s]
        return max(counts, default=0)


def play(
    service: Service,
    load: Load,
    *,
    faults: Iterable[Fault] = (),
    until_s: float | None = None,
    seed: int = 1,
    recorded: type[Recorded] = Recorded,
) -> Run:
    """Runs a load against a service that the law steers."""
    law = recorded(service.law_policy())
    result = simulate(
        load.requests(random.Random(seed)),
        service.config(),
        law,
        generator=random.Random(seed + 7919),
        faults=faults,
        until_s=load.duration_s if until_s is None else until_s,
    )
    return Run(service, result, law)


def lengths(
    prompt: float, output: float, *, sigma: float = 0.8, spread: float = 0.55, most: int = 8192
) -> LogNormalLengths:
    return LogNormalLengths(
        prompt=LogNormal(mean=prompt, sigma=sigma, most=most),
        output=LogNormal(mean=output, sigma=spread, most=8 * round(output)),
    )


CHAT = lengths(1600, 60, most=6144)
SHORT_CHAT = lengths(300, 60, most=1024)


def chat(rates: Rates, what: LogNormalLengths = CHAT, **more: Any) -> SingleTurns:
    return SingleTurns(rates=rates, stages=(Stage(0.0, what),), **more)
