"""The whole decision of one scheduling step, as data the runner can execute."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import msgspec

from paceline_engine.sampling import SamplingParams


class StepClass(StrEnum):
    """What a step is made of; step times are bimodal, so moments are kept per class."""

    DECODE_ONLY = "decode_only"
    MIXED = "mixed"
    PREFILL_ONLY = "prefill_only"


class ScheduledChunk(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Tokens of one request that run in this step.

    A struct, as a step builds hundreds: seven times cheaper than a frozen dataclass, and no
    work for the garbage collector.

    Attributes:
        request_id: Whose tokens they are.
        token_ids: Tokens at positions [start, start + len(token_ids)).
        start: Tokens of the request that already are in the KV cache.
        block_ids: Block table covering positions [0, start + len(token_ids)), not one block
            more. Valid until the next step is scheduled; copy it to keep it.
        is_decode: One new token of a request whose whole known text is in the cache; a
            recomputed prompt after preemption counts as prefill.
        samples: Whether the last token's logits are sampled (the chunk reaches the end of
            what is known of the request).
        sampling: How to sample; the drawn token stands at position `end`.
        history: All known tokens of the request, prompt first, at least to `end`; grows in
            place, so valid until the step's results are applied. For penalties.
        num_prompt_tokens: How many of them are the prompt.
    """

    request_id: int
    token_ids: Sequence[int]
    start: int
    block_ids: Sequence[int]
    is_decode: bool
    samples: bool
    sampling: SamplingParams
    history: Sequence[int] = ()
    num_prompt_tokens: int = 0

    @property
    def end(self) -> int:
        """Position after the last token of this chunk."""
        return self.start + len(self.token_ids)


@dataclass(frozen=True, kw_only=True)
class SchedulerOutput:
    """One step: decodes first, then prefill chunks.

    Attributes:
        step_id: Counts up by one.
        chunks: At most one chunk per request.
        budget: Token budget in force for this step.
        preempted: Requests whose blocks were taken back; they wait to be recomputed.
        started: Requests of which no step ran a part before.
        copies: (source, destination) blocks to copy, in this order, before anything is
            computed: copy-on-write of blocks that forked requests share.
        wipes: Blocks to overwrite after the copies and before anything is computed: cleared
            while they were in use.
    """

    step_id: int
    chunks: tuple[ScheduledChunk, ...]
    budget: int
    preempted: tuple[int, ...] = ()
    started: tuple[int, ...] = ()
    copies: tuple[tuple[int, int], ...] = ()
    wipes: tuple[int, ...] = ()

    @cached_property
    def decode_rows(self) -> int:
        """Decode tokens in the step."""
        return bisect_left(self.chunks, 1, key=lambda chunk: int(not chunk.is_decode))

    @cached_property
    def prefill_tokens(self) -> int:
        """Prompt (or recomputed) tokens in the step."""
        return sum(len(chunk.token_ids) for chunk in self.chunks[self.decode_rows :])

    @cached_property
    def num_tokens(self) -> int:
        """All tokens in the step; never above `budget`."""
        return self.decode_rows + self.prefill_tokens

    @cached_property
    def resident_kv_tokens(self) -> int:
        """KV tokens the step reads: context of every scheduled chunk, itself included."""
        return sum([chunk.start for chunk in self.chunks]) + self.num_tokens

    @cached_property
    def chunk_context(self) -> int:
        """Sum over prefill chunks of length x context, the attention work of chunks."""
        return sum(len(c.token_ids) * c.end for c in self.chunks[self.decode_rows :])

    @cached_property
    def step_class(self) -> StepClass:
        """Class of the step; undefined for an empty one."""
        if not self.prefill_tokens:
            return StepClass.DECODE_ONLY
        return StepClass.MIXED if self.decode_rows else StepClass.PREFILL_ONLY
