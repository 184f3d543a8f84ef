"""What the scheduler needs to know of an executed step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from paceline_engine.message import TokenLogprobs
from paceline_engine.request import Fault


class StepResult(Protocol):
    """Results of one step; the runner's output has this form."""

    @property
    def sampled(self) -> Iterable[tuple[int, int]]:
        """(request id, token id) for each chunk that samples and succeeded."""
        ...

    @property
    def failed(self) -> Iterable[tuple[int, str]]:
        """(request id, reason) for requests that failed alone."""
        ...

    @property
    def faults(self) -> Mapping[int, Fault]:
        """Those of `failed` whose own settings are why."""
        ...

    @property
    def logprobs(self) -> Mapping[int, TokenLogprobs]:
        """Request id -> log-probabilities at its drawn token, where asked for."""
        ...

    @property
    def prompt_logprobs(self) -> Mapping[int, tuple[TokenLogprobs, ...]]:
        """Request id -> those of prompt tokens at the positions after its chunk's."""
        ...
