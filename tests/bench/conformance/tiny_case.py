"""A load of two minutes for tests of the evaluation's machinery."""

from __future__ import annotations

from bench.conformance.load_case import LoadCase, Service
from paceline_operator.simulator.loads.lengths import LogNormal, LogNormalLengths
from paceline_operator.simulator.loads.rates import Constant
from paceline_operator.simulator.loads.single_turns import SingleTurns, Stage

LENGTHS = LogNormalLengths(
    prompt=LogNormal(mean=200, sigma=0.5, most=800), output=LogNormal(mean=20, sigma=0.3, most=60)
)


def tiny(name: str = "tiny", *, rps: float = 2.0, ttft_ms: int = 1000) -> LoadCase:
    load = SingleTurns(rates=Constant(rps=rps, duration_s=120.0), stages=(Stage(0.0, LENGTHS),))
    return LoadCase(
        name=name,
        play=load.requests,
        duration_s=load.duration_s,
        service=Service(profile="llama-3-8b-h100", ttft_ms=ttft_ms, itl_ms=50),
    )
