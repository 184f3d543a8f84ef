"""Running requests with known text to compute, by tier and tenant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from paceline_engine.request import Tier
from paceline_engine.scheduler.plan import StepPlan
from paceline_engine.scheduler.sequence import Sequence


class Prompts:
    """Those of one step, each tenant's in the order in which they are served.

    Args:
        sequences: Who runs already; others are added as they come in.
    """

    def __init__(self, sequences: Iterable[Sequence]) -> None:
        self._tiers: dict[Tier, dict[str, list[Sequence]]] = {tier: {} for tier in Tier}
        for each in sequences:
            self.add(each)

    def add(self, sequence: Sequence) -> None:
        """Adds who has just come in."""
        request = sequence.request
        self._tiers[request.tier].setdefault(request.tenant, []).append(sequence)

    def by_tenant(self, tier: Tier) -> Mapping[str, list[Sequence]]:
        """Each tenant's of a tier."""
        return self._tiers[tier]

    def wanted(self, tier: Tier, plan: StepPlan) -> dict[str, float]:
        """Tokens that each tenant of a tier could still use in a step; all of them some."""
        rests = {
            tenant: sum(len(each.token_ids) - plan.end_of(each) for each in sequences)
            for tenant, sequences in self._tiers[tier].items()
        }
        return {tenant: rest for tenant, rest in rests.items() if rest > 0}
