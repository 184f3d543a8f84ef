"""Which prompt tokens a chunk predicts and reports."""

from __future__ import annotations

from collections.abc import Sequence

from paceline_engine.scheduler.output import ScheduledChunk


def prompt_targets(chunk: ScheduledChunk) -> Sequence[int]:
    """Prompt tokens whose log-probabilities the chunk's rows tell, where they are asked for.

    The first row tells of position start + 1. None once the request has output: a prompt that
    is computed again after preemption was reported before its first output token.
    """
    has_output = len(chunk.history) > chunk.num_prompt_tokens
    if chunk.sampling.prompt_logprobs is None or has_output:
        return ()
    return chunk.history[chunk.start + 1 : min(chunk.end + 1, chunk.num_prompt_tokens)]
