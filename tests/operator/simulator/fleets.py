"""Small simulated fleets, loads and control laws for tests."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Any

from paceline_operator.api.v1alpha1 import SloMetric
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation, Tunables
from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.simulator.controller import NOTHING, Orders
from paceline_operator.simulator.engine_config import EngineConfig
from paceline_operator.simulator.fleet.fleet_config import BEGIN_S, FleetConfig
from paceline_operator.simulator.law import StepLaw
from paceline_operator.simulator.request import Request
from paceline_operator.simulator.result import Result
from paceline_operator.simulator.run import simulate

LAW = StepLaw(base_ms=10.0, per_prefill_token_ms=0.1, per_decode_row_ms=0.5)
TTFT = Objective(name="first-token", metric=SloMetric.TTFT, target_ms=1000)
ITL = Objective(name="cadence", metric=SloMetric.ITL, target_ms=100)


def engine(**more: Any) -> EngineConfig:
    given: dict[str, Any] = {
        "law": LAW,
        "num_kv_blocks": 4000,
        "max_model_len": 4096,
        "max_num_batched_tokens": 1024,
        "max_num_seqs": 32,
        "initial_batched_tokens": 512,
        "initial_running_seqs": 32,
        **more,
    }
    return EngineConfig(**given)


def fleet(**more: Any) -> FleetConfig:
    given: dict[str, Any] = {
        "engine": engine(),
        "objectives": (TTFT, ITL),
        "initial_replicas": 2,
        "cold_start_s": 20.0,
        **more,
    }
    return FleetConfig(**given)


def poisson(
    rate: float, seconds: float, seed: int = 1, prompt: int = 400, output: int = 60
) -> Iterator[Request]:
    """Lengths are uniform from half of the given ones to one and a half."""
    chance = random.Random(seed)
    at_s = chance.expovariate(rate)
    while at_s < seconds:
        tokens = [chance.randint(size // 2, size * 3 // 2) for size in (prompt, output)]
        yield Request(round(at_s, 3), tokens[0], tokens[1])
        at_s += chance.expovariate(rate)


@dataclass
class Scripted:
    """Orders by time from the load's beginning; remembers what it saw."""

    script: dict[float, Orders] = field(default_factory=dict)
    seen: list[FleetObservation] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    @property
    def next_due_s(self) -> float:
        return -inf

    def decide(self, fleet: FleetObservation, now_s: float) -> Orders:
        self.seen.append(fleet)
        due = [at_s for at_s in sorted(self.script) if BEGIN_S + at_s <= now_s]
        return self.script.pop(due[0]) if due else NOTHING

    def disturbed(self, now_s: float) -> None:
        self.told.append(f"disturbed at {now_s - BEGIN_S:g}")

    def restarted(self) -> None:
        self.told.append("restarted")

    def at(self, time_s: float) -> FleetObservation:
        """What it saw at a time from the load's beginning."""
        return next(each for each in self.seen if each.now_s >= BEGIN_S + time_s)


class Nothing:
    """Never asks."""

    next_due_s = inf

    def decide(self, fleet: FleetObservation, now_s: float) -> Orders:
        raise AssertionError("nobody was to ask")


def to(replicas: int) -> Orders:
    return Orders(replicas=replicas, reason="test")


def knobs(budget: int, seqs: int = 32) -> Orders:
    wanted = Tunables(max_num_batched_tokens=budget, max_num_running_seqs=seqs)
    return Orders(tunables=wanted, reason="test")


def run(load: Iterator[Request], controller: Any = None, **more: Any) -> Result:
    """A run with seed 1; arguments of `simulate` by their names, all others make the fleet."""
    own = {name: more.pop(name) for name in ("faults", "until_s", "at_least_s") if name in more}
    chance = random.Random(more.pop("seed", 1))
    return simulate(load, fleet(**more), controller or Nothing(), generator=chance, **own)
