"""A pure stand-in for a runner that really pages: it reads every context through block tables.

A token is drawn from a hash over all tokens found in the cache and the request's seed, so a
wrong block, a lost token or a stale slot changes the output from there on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from paceline_engine.message import TokenLogprobs
from paceline_engine.request import Request
from paceline_engine.runner.base import RunnerOutput
from paceline_engine.runner.simulated import mix
from paceline_engine.scheduler.output import ScheduledChunk, SchedulerOutput

WIPED = -1


def draw(tokens: Iterable[int], seed: int, vocab_size: int) -> int:
    """The token after `tokens`."""
    state = seed
    for token in tokens:
        state = mix(state, token)
    return state % vocab_size


class PagedExecutor:
    """Keeps tokens where a real runner keeps KV vectors.

    Args:
        block_size: Tokens in a block.
        vocab_size: Tokens drawn lie below it.
    """

    def __init__(self, block_size: int, vocab_size: int) -> None:
        self._block_size = block_size
        self._vocab_size = vocab_size
        self._slots: dict[tuple[int, int], int] = {}

    def execute(self, step: SchedulerOutput) -> RunnerOutput:
        """The token of each sampling chunk.

        All chunks write before any reads: two requests on one block would be seen.
        """
        for source, copy in step.copies:
            for offset in range(self._block_size):
                self._slots[copy, offset] = self._slots.get((source, offset), WIPED)
        self.wipe(step.wipes)
        for chunk in step.chunks:
            for slot, token in zip(self._places(chunk, chunk.start), chunk.token_ids, strict=True):
                self._slots[slot] = token
        return RunnerOutput(
            sampled=tuple((c.request_id, self._draw(c)) for c in step.chunks if c.samples),
            logprobs={
                c.request_id: self._logprob(c, c.end)
                for c in step.chunks
                if c.samples and c.sampling.logprobs is not None
            },
            prompt_logprobs={
                c.request_id: self._prompt_logprobs(c)
                for c in step.chunks
                if c.sampling.prompt_logprobs is not None
            },
        )

    def wipe(self, block_ids: Iterable[int]) -> None:
        """Overwrites blocks."""
        for block in block_ids:
            for offset in range(self._block_size):
                self._slots[block, offset] = WIPED

    def _prompt_logprobs(self, chunk: ScheduledChunk) -> tuple[TokenLogprobs, ...]:
        last = min(chunk.end, chunk.num_prompt_tokens - 1)
        return tuple(self._logprob(chunk, place) for place in range(chunk.start + 1, last + 1))

    def _logprob(self, chunk: ScheduledChunk, place: int) -> TokenLogprobs:
        """Says which position it is about, and all tokens before it."""
        context = [self._slots[slot] for slot in self._places(chunk, 0)][:place]
        return TokenLogprobs(place, -float(draw(context, 0, self._vocab_size)), rank=1)

    def _draw(self, chunk: ScheduledChunk) -> int:
        context = [self._slots[slot] for slot in self._places(chunk, 0)]
        return draw(context, chunk.sampling.seed, self._vocab_size)

    def _places(self, chunk: ScheduledChunk, start: int) -> Iterator[tuple[int, int]]:
        for position in range(start, chunk.end):
            block, offset = divmod(position, self._block_size)
            yield chunk.block_ids[block], offset


def reference_output(
    request: Request, *, vocab_size: int, max_total: int, eos: frozenset[int]
) -> list[int]:
    """What the request must answer: the same law, one token at a time, no scheduler."""
    sampling = request.sampling
    stops = frozenset(sampling.stop_token_ids) | (frozenset() if sampling.ignore_eos else eos)
    tokens = list(request.prompt_token_ids)
    limit = min(len(tokens) + sampling.max_tokens, max_total)
    while len(tokens) < limit:
        token = draw(tokens, sampling.seed, vocab_size)
        if token in stops:
            break
        tokens.append(token)
    return tokens[len(request.prompt_token_ids) :]
