"""Specs, facts and figures for tests."""

from __future__ import annotations

from typing import Any

from paceline_operator.api.v1alpha1 import InferenceServiceSpec, SloMetric
from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.simulator.profiles import find_profile
from paceline_operator.simulator.what_if.comparison import Comparison, LoadFacts, Variant
from paceline_operator.simulator.what_if.engine_facts import EngineFacts
from paceline_operator.simulator.what_if.figures import Figures

PROFILE = "llama-3-8b-a100"
TTFT = Objective(name="first-token", metric=SloMetric.TTFT, target_ms=1000)
ITL = Objective(name="cadence", metric=SloMetric.ITL, target_ms=50)


def spec(**more: Any) -> InferenceServiceSpec:
    """A fleet of one to four; fields as in a manifest."""
    given: dict[str, Any] = {
        "engine": {"device": {"type": "Simulated", "profile": PROFILE}},
        "slos": [
            {"name": "first-token", "metric": "TTFT", "targetMs": 1000},
            {"name": "cadence", "metric": "ITL", "targetMs": 50},
        ],
        "scaling": {"minReplicas": 1, "maxReplicas": 4},
        **more,
    }
    return InferenceServiceSpec.model_validate(given)


def facts(cold_start_s: float = 60.0) -> EngineFacts:
    law = find_profile(PROFILE).law
    return EngineFacts(law=law, kv_tokens=100_000, cold_start_s=cold_start_s, notes=("As given.",))


def figures(**more: Any) -> Figures:
    given: dict[str, Any] = {
        "requests": 1000,
        "attained": (0.97, 0.99),
        "offered": (1000, 1000),
        "goodput": 0.96,
        "worst_5min": 0.9,
        "worst_5min_at_s": 600.0,
        "replica_hours": 4.0,
        "replicas_mean": 2.0,
        "replicas_peak": 3,
        "replica_moves": 5,
        "replica_reversals": 1,
        "budget_moves": 2,
        "budget_reversals": 0,
        "step_time_moves": 3,
        "step_time_reversals": 1,
        "refused": 0,
        "unserved": 0,
        "late": 40,
        **more,
    }
    return Figures(**given)


def variant(label: str, *runs: Figures, price: float | None = 2.5, **more: Any) -> Variant:
    given: dict[str, Any] = {
        "source": f"{label}.yaml",
        "objectives": (TTFT, ITL),
        "notes": ("As given.",),
        **more,
    }
    return Variant(label=label, cost_per_replica_hour=price, runs=runs or (figures(),), **given)


def comparison(old: Variant | None, new: Variant, **more: Any) -> Comparison:
    load = LoadFacts(
        source="trace a.csv", span_s=3600.0, requests=1000, prompt_mean=500.0, output_mean=80.0
    )
    return Comparison(name="chat", load=load, lead_s=600.0, old=old, new=new, **more)
