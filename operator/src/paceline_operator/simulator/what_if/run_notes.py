"""What has to be said of runs beside their figures."""

from __future__ import annotations

from collections.abc import Sequence

from paceline_operator.autopilot.policy import Objective
from paceline_operator.simulator.what_if.figures import Figures


def without_samples(objectives: Sequence[Objective], runs: Sequence[Figures]) -> tuple[str, ...]:
    """Why objectives have no samples, one sentence for each of those."""
    return tuple(
        _why(objective, max(run.offered[place] for run in runs))
        for place, objective in enumerate(objectives)
        if all(run.attained[place] is None for run in runs)
    )


def _why(objective: Objective, offered: int) -> str:
    tier = objective.tier.value
    if not offered:
        return f"No samples of {objective.name}: no request of the {tier} tier was played."
    requests = "the one request" if offered == 1 else f"{offered:,} requests"
    return (
        f"No samples of {objective.name}: {requests} of the {tier} tier came, and none was served "
        "so far that it could be measured."
    )
