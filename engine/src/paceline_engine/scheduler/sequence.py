"""One admitted request while it waits or runs: its tokens and how far they are computed."""

from __future__ import annotations

from paceline_engine.request import FinishReason, Request


class Sequence:
    """Mutable state of one request, owned by the scheduler.

    Attributes:
        request: As submitted.
        token_ids: Prompt and generated tokens; never shortened, so preemption loses none.
        num_computed: Leading tokens whose KV is in the cache.
        prefill_end: Tokens known when the sequence was last admitted; up to there chunks are
            prefill, beyond it decode.
        has_run: Whether any step ran a part of it; survives preemption.
    """

    __slots__ = (
        "_eos_token_ids",
        "_max_total",
        "has_run",
        "num_computed",
        "prefill_end",
        "request",
        "token_ids",
    )

    def __init__(self, request: Request, max_total: int, eos_token_ids: frozenset[int]) -> None:
        sampling = request.sampling
        self.request = request
        self.token_ids = list(request.prompt_token_ids)
        self.num_computed = 0
        self.prefill_end = 0
        self.has_run = False
        self._max_total = min(len(self.token_ids) + sampling.max_tokens, max_total)
        stop = frozenset(sampling.stop_token_ids)
        self._eos_token_ids = stop if sampling.ignore_eos else stop | eos_token_ids

    @property
    def request_id(self) -> int:
        """Id of the request."""
        return self.request.request_id

    @property
    def is_prefilling(self) -> bool:
        """Whether text known at admission is still to be computed."""
        return self.num_computed < self.prefill_end

    @property
    def num_remaining(self) -> int:
        """Known tokens that are not computed yet."""
        return len(self.token_ids) - self.num_computed

    def admit(self) -> None:
        """Starts computing everything that is known."""
        self.prefill_end = len(self.token_ids)

    def preempt(self) -> None:
        """Forgets the KV but no token."""
        self.num_computed = 0
        self.prefill_end = 0

    def append(self, token_id: int) -> FinishReason | None:
        """Adds a drawn token; returns why the output ends with it, if it does.

        A token that ends the output by itself is not part of it and is not added.
        """
        if token_id in self._eos_token_ids:
            return FinishReason.STOP
        self.token_ids.append(token_id)
        return FinishReason.LENGTH if len(self.token_ids) >= self._max_total else None
