"""A load of the evaluation, the engines that serve it, and what they are to hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from paceline_operator.api.v1alpha1 import SloMetric
from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.simulator.fleet.faults import Fault
from paceline_operator.simulator.generator import Generator
from paceline_operator.simulator.profiles import Profile, find_profile
from paceline_operator.simulator.request import Request

TTFT_NAME = "first-token"
ITL_NAME = "cadence"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Engines and their objectives, each for 95 % of its samples.

    Attributes:
        profile: Accelerator and model, by name.
        ttft_ms: Target of the first token.
        itl_ms: Target of the gaps between tokens.
        max_num_seqs: Ceiling of running sequences.
        max_num_batched_tokens: Ceiling of the budget.
    """

    profile: str
    ttft_ms: int
    itl_ms: int
    max_num_seqs: int = 128
    max_num_batched_tokens: int = 8192

    @property
    def accelerator(self) -> Profile:
        """The profile itself."""
        return find_profile(self.profile)

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """Both, of the interactive tier."""
        return (
            Objective(name=TTFT_NAME, metric=SloMetric.TTFT, target_ms=self.ttft_ms),
            Objective(name=ITL_NAME, metric=SloMetric.ITL, target_ms=self.itl_ms),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCase:
    """One load; equal chance gives equal requests.

    Attributes:
        name: In results.
        play: Its requests in order of arrival, from chance.
        duration_s: Its length.
        service: Who serves it.
        faults: What goes wrong meanwhile.
        steps_up_at_s: When the replicas that it needs rise at once, as more work comes or steps
            take longer.
        is_threefold: Whether it first rises to three times as much, for the time to recover.
        changes_regime: Whether the best budget is another one before than after: where taking
            the budget loop out has to cost.
        trace: The file behind it, None for a seeded load.
        left_out_s: How much of the file's end is not played.
    """

    name: str
    play: Callable[[Generator], Iterator[Request]]
    duration_s: float
    service: Service
    faults: tuple[Fault, ...] = ()
    steps_up_at_s: tuple[float, ...] = ()
    is_threefold: bool = False
    changes_regime: bool = False
    trace: Path | None = None
    left_out_s: float = 0.0
