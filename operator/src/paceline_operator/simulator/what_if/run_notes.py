"""What has to be said of runs beside their figures."""

from __future__ import annotations

from collections.abc import Sequence

from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.simulator.engine_config import EngineConfig
from paceline_operator.simulator.what_if.figures import Figures

_WORTH_SAYING = 0.01


def without_samples(objectives: Sequence[Objective], runs: Sequence[Figures]) -> tuple[str, ...]:
    """Why objectives have no samples, one sentence for each of those."""
    return tuple(
        _why(objective, max(run.offered[place] for run in runs))
        for place, objective in enumerate(objectives)
        if all(run.attained[place] is None for run in runs)
    )


def never_served(engine: EngineConfig, runs: Sequence[Figures]) -> tuple[str, ...]:
    """That requests are too long for any replica, and what to raise; nothing where none is."""
    never = round(sum(run.never_served for run in runs) / len(runs))
    requests = round(sum(run.requests for run in runs) / len(runs))
    if not never:
        return ()
    if engine.max_model_len <= engine.kv_capacity_tokens:
        limit = f"{engine.max_model_len:,} tokens of engine.maxModelLen; raise that"
    else:
        limit = (
            f"{engine.kv_capacity_tokens:,} tokens that a replica's KV cache holds; raise "
            "engine.kvCache.memory, or pass what it will hold as --kv-tokens"
        )
    return (
        f"{never:,} of {requests:,} requests can never be served and count as refused: a prompt "
        f"has to be shorter than the {limit}.",
    )


def infeasible(runs: Sequence[Figures]) -> tuple[str, ...]:
    """That objectives cannot be met, for how long, and the law's arithmetic; or nothing."""
    share = sum(run.infeasible_share for run in runs) / len(runs)
    if share < _WORTH_SAYING:
        return ()
    worst = max(runs, key=lambda run: run.infeasible_share)
    return (f"SLOFeasible=False for {100 * share:.0f} % of the time: {worst.infeasible_message}",)


def _why(objective: Objective, offered: int) -> str:
    tier = objective.tier.value
    if not offered:
        return f"No samples of {objective.name}: no request of the {tier} tier was played."
    requests = "the one request" if offered == 1 else f"{offered:,} requests"
    return (
        f"No samples of {objective.name}: {requests} of the {tier} tier came, and none was served "
        "so far that it could be measured."
    )
