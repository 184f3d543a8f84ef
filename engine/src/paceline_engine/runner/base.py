"""The one seam between the engine loop and whatever executes a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from paceline_engine.message import TokenLogprobs
from paceline_engine.request import Fault
from paceline_engine.scheduler.output import SchedulerOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerOutput:
    """What a step produced.

    Attributes:
        sampled: (request id, token id) for each chunk that samples and succeeded.
        failed: (request id, reason) for requests that failed alone, such as non-finite
            logits; the rest of the batch is unharmed.
        faults: Those of `failed` whose own settings are why.
        logprobs: Request id -> log-probabilities at its drawn token, where asked for.
        prompt_logprobs: Request id -> those at positions start + 1 to end of its chunk, as
            far as they lie in the prompt, where asked for; nothing for a request that has
            output already: what is computed again after preemption was reported before.
    """

    sampled: tuple[tuple[int, int], ...]
    failed: tuple[tuple[int, str], ...] = ()
    faults: Mapping[int, Fault] = field(default_factory=dict)
    logprobs: Mapping[int, TokenLogprobs] = field(default_factory=dict)
    prompt_logprobs: Mapping[int, tuple[TokenLogprobs, ...]] = field(default_factory=dict)


class Runner(Protocol):
    """Executes steps. Owns weights and KV tensors; block ids come from the scheduler."""

    def execute(self, output: SchedulerOutput) -> RunnerOutput:
        """Runs one non-empty step to completion and returns its sampled tokens.

        Copies, then wipes, the blocks the step names before anything is computed.
        """
        ...

    def wipe(self, block_ids: Sequence[int]) -> None:
        """Overwrites blocks that nobody holds; between two steps."""
        ...

    def close(self) -> None:
        """Frees what the runner holds; safe to call twice."""
        ...
