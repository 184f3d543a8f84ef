"""Prompts as text, for answers that begin with them: what was given, or what their ids read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from paceline_engine.server.choices import Prompt
from paceline_engine.tokenizer import Tokenizer

LONG_PROMPT_TOKENS: Final = 1024
"""From here on a thread reads prompts out, so that streams go on."""


async def read_out(
    prompts: Sequence[Prompt], tokenizer: Tokenizer, *, scored: bool
) -> list[Prompt]:
    """Prompts that are to be echoed, with their texts; long ones are read in a thread.

    Args:
        prompts: Of one call.
        tokenizer: The model's.
        scored: Whether the places of tokens in the texts are needed too.
    """

    def read(prompt: Prompt) -> Prompt:
        text = echoed(prompt, tokenizer)
        offsets = offsets_of(prompt, text, tokenizer) if scored else None
        return replace(prompt, text=text, offsets=offsets)

    def work() -> list[Prompt]:
        return [read(prompt) for prompt in prompts]

    is_long = sum(len(prompt.token_ids) for prompt in prompts) > LONG_PROMPT_TOKENS
    return await asyncio.to_thread(work) if is_long else work()


def offsets_of(prompt: Prompt, text: str, tokenizer: Tokenizer) -> tuple[int, ...]:
    """Where each token of a prompt begins in its text."""
    if prompt.offsets is not None:
        return prompt.offsets
    return token_offsets(prompt.token_ids, text, tokenizer)


def echoed(prompt: Prompt, tokenizer: Tokenizer) -> str:
    """The prompt as given, or the text of its ids, special tokens included."""
    if prompt.text is not None:
        return prompt.text
    return tokenizer.decode(prompt.token_ids, skip_special=False)


def token_offsets(token_ids: Sequence[int], text: str, tokenizer: Tokenizer) -> tuple[int, ...]:
    """Where each token of a prompt begins in its text.

    What encoding put before the text, such as a begin-of-sequence token, takes no place in it.
    """
    decoder = tokenizer.incremental_decoder(skip_special=False)
    positions: list[int] = []
    length = 0
    for token_id in token_ids:
        positions.append(length)
        length += len(decoder.push((token_id,)))
    ahead = max(0, length + len(decoder.flush()) - len(text))
    return tuple(min(max(0, position - ahead), len(text)) for position in positions)
