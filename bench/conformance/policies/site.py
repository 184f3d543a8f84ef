"""What whoever sets a policy up knows of the place it steers."""

from __future__ import annotations

from dataclasses import dataclass

from paceline_operator.autopilot.vocabulary.fleet import Tunables


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaBounds:
    """Fewest and most replicas: `minReplicas` and `maxReplicas` of every autoscaler."""

    least: int = 1
    most: int = 10

    def clamp(self, replicas: float) -> int:
        """The nearest value inside."""
        return int(min(max(replicas, self.least), self.most))


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One fleet and its objectives.

    Attributes:
        bounds: Of the replicas.
        ttft_ms: Target of the first token.
        itl_ms: Target of the gap between tokens.
        running_seqs: Cap of running sequences the engines start with.
        budget_ceiling: Largest token budget the engines take.
    """

    bounds: ReplicaBounds
    ttft_ms: float
    itl_ms: float
    running_seqs: int
    budget_ceiling: int

    def tunables(self, budget: int) -> Tunables:
        """A budget that these engines take, with the running cap they start with."""
        return Tunables(
            max_num_batched_tokens=min(budget, self.budget_ceiling),
            max_num_running_seqs=self.running_seqs,
        )
