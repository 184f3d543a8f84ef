"""A pure stand-in for a runner that really pages: it reads every context through block tables.

A token is drawn from a hash over all tokens found in the cache and the request's seed, so a
wrong block, a lost token or a stale slot changes the output from there on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from paceline_engine.request import Request
from paceline_engine.runner.simulated import mix
from paceline_engine.scheduler.output import ScheduledChunk, SchedulerOutput


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

    def execute(self, step: SchedulerOutput) -> list[tuple[int, int]]:
        """(request id, token) of each sampling chunk.

        All chunks write before any reads: two requests on one block would be seen.
        """
        for chunk in step.chunks:
            for slot, token in zip(self._places(chunk, chunk.start), chunk.token_ids, strict=True):
                self._slots[slot] = token
        return [(chunk.request_id, self._draw(chunk)) for chunk in step.chunks if chunk.samples]

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
