"""What choices say of their prompt: its text, its tokens, their log-probabilities.

The engine scores a prompt once, for its first choice; the others wait for that.
"""

from __future__ import annotations

import asyncio

from paceline_engine.message import TokenLogprobs
from paceline_engine.server.choices import Prompt
from paceline_engine.server.echo import echoed, offsets_of
from paceline_engine.server.piece import Opening
from paceline_engine.tokenizer import Tokenizer


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
