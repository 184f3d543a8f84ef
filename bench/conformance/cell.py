"""One run of the evaluation: a load, a policy, a cold start and a seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Cell:
    """What is run; everything else follows from the code and the traces.

    Attributes:
        load: Name of the load.
        policy: Name of the contestant.
        setting: Place in the contestant's sweep from dear to cheap; None for its default.
        cold_start_s: From a pod made to one that serves.
        seed: Of arrivals and router.
    """

    load: str
    policy: str
    setting: int | None = None
    cold_start_s: int = 120
    seed: int = 1

    @property
    def name(self) -> str:
        """For people and files."""
        place = "" if self.setting is None else f"#{self.setting}"
        return f"{self.load}/{self.policy}{place}/{self.cold_start_s}s/{self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How a cell ended.

    Attributes:
        requests: Sent.
        attainment: Share of requests that met every objective; unfinished, refused and failed
            ones did not.
        ttft_attainment: Share of first tokens in time.
        itl_attainment: Share of gaps in time.
        replica_hours: Pending and draining ones included.
        worst_5min: Lowest attainment of five minutes, outside of one cold start after a step.
        recovery_s: From the load's step up to the end of the last quarter minute below 95 %; None
            without a step.
        replica_reversals: Most changes of direction of N in ten minutes.
        budget_reversals: The same of the budget.
        replica_moves: Changes of N.
        budget_moves: Changes of the budget.
        replicas_peak: Most replicas wanted.
        cut: Requests cut by a scale-in.
        wall_s: Time it took.
    """

    requests: int
    attainment: float
    ttft_attainment: float
    itl_attainment: float
    replica_hours: float
    worst_5min: float
    recovery_s: float | None
    replica_reversals: int
    budget_reversals: int
    replica_moves: int
    budget_moves: int
    replicas_peak: int
    cut: int
    wall_s: float

    def as_json(self) -> dict[str, Any]:
        """For a file."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Score:
        """From a file.

        Raises:
            TypeError: It is of another version.
        """
        return cls(**stored)


Scores = Mapping[Cell, Score]
