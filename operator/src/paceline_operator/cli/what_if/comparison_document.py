"""What `what-if --json` prints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any

from paceline_operator.simulator.what_if.comparison import (
    Comparison,
    Spread,
    Variant,
    verdict,
)
from paceline_operator.simulator.what_if.figures import Figures

_LISTED = ("attained", "offered", "worst_5min_at_s", "infeasible_message")


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """Every figure with its spread, all runs, and what was assumed."""
    return {
        "name": comparison.name,
        "verdict": verdict(comparison),
        "load": {_camel(key): value for key, value in asdict(comparison.load).items()},
        "leadInSeconds": comparison.lead_s,
        "old": None if comparison.old is None else _variant(comparison.old),
        "new": _variant(comparison.new),
        "notes": list(comparison.notes),
    }


def _variant(variant: Variant) -> dict[str, Any]:
    return {
        "source": variant.source,
        "objectives": [
            {
                "name": each.name,
                "metric": each.metric.value,
                "tier": each.tier.value,
                "percentile": each.percentile,
                "targetMs": each.target_ms,
                "attained": _spread(variant.attained(each)),
                "held": variant.held(each),
            }
            for each in variant.objectives
        ],
        "costPerReplicaHour": variant.cost_per_replica_hour,
        "cost": _spread(variant.cost),
        **{
            _camel(each.name): _spread(variant.spread_of_known(_figure(each.name)))
            for each in fields(Figures)
            if each.name not in _LISTED
        },
        "runs": [{_camel(key): value for key, value in asdict(r).items()} for r in variant.runs],
        "notes": list(variant.notes),
    }


def _figure(name: str) -> Callable[[Figures], float | None]:
    def figure(run: Figures) -> float | None:
        value = getattr(run, name)
        return None if value is None else float(value)

    return figure


def _spread(spread: Spread | None) -> dict[str, float] | None:
    return None if spread is None else asdict(spread)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
