"""What choices say of their prompt: its text, its tokens, their log-probabilities.

The engine scores a prompt once, for its first choice; the others wait for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from paceline_engine.message import TokenLogprobs
from paceline_engine.server.choices import Prompt
from paceline_engine.server.piece import Opening
from paceline_engine.tokenizer import Tokenizer

LONG_PROMPT_TOKENS: Final = 1024
"""From here on a thread reads prompts out, so that streams go on."""


class PromptScores:
    """Log-probabilities of one prompt, told once, awaited by all its choices."""

    def __init__(self) -> None:
        self._known = asyncio.Event()
        self._scores: tuple[TokenLogprobs, ...] = ()

    def tell(self, scores: tuple[TokenLogprobs, ...]) -> None:
        """The first choice's engine output has come."""
        self._scores = scores
        self._known.set()

    async def get(self) -> tuple[TokenLogprobs, ...]:
        """Waits for them; where the first choice fails the whole call does."""
        await self._known.wait()
        return self._scores


class PromptView:
    """How one prompt is shown.

    Args:
        prompt: The prompt.
        tokenizer: The model's.
        echoes: Whether its text begins each choice.
        scores: Where its log-probabilities come; None where nobody asked.
    """

    def __init__(
        self, prompt: Prompt, tokenizer: Tokenizer, *, echoes: bool, scores: PromptScores | None
    ) -> None:
        self._prompt = prompt
        self._scores = scores
        self.text = echoed(prompt, tokenizer) if echoes else ""
        self._offsets: tuple[int, ...] = ()
        self._opening: Opening | None = None
        if echoes and scores is not None:
            self._offsets = offsets_of(prompt, self.text, tokenizer)

    def tell(self, scores: tuple[TokenLogprobs, ...]) -> None:
        """The first choice's engine output has come."""
        if self._scores is not None:
            self._scores.tell(scores)

    async def opening(self) -> Opening:
        """What stands in a choice's first piece: one object, so that it is written once."""
        scores = () if self._scores is None else await self._scores.get()
        if self._opening is None:
            self._opening = Opening(
                token_ids=self._prompt.token_ids,
                text=self.text,
                offsets=self._offsets,
                scores=scores,
            )
        return self._opening


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
