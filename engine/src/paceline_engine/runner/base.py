"""The one seam between the engine loop and whatever executes a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from paceline_engine.scheduler.output import SchedulerOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerOutput:
    """What a step produced.

    Attributes:
        sampled: (request id, token id) for each chunk that samples and succeeded.
        failed: (request id, reason) for requests that failed alone, such as non-finite
            logits; the rest of the batch is unharmed.
    """

    sampled: tuple[tuple[int, int], ...]
    failed: tuple[tuple[int, str], ...] = ()


class Runner(Protocol):
    """Executes steps. Owns weights and KV tensors; block ids come from the scheduler."""

    def execute(self, output: SchedulerOutput) -> RunnerOutput:
        """Runs one non-empty step to completion and returns its sampled tokens."""
        ...

    def close(self) -> None:
        """Frees what the runner holds; safe to call twice."""
        ...
