"""Tokens that may not stand at a position, whatever the logits say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from paceline_engine.sampling import SamplingParams


@dataclass(slots=True)
class _Tail:
    """Words whose other tokens end alike: the last tokens of those that end here, and longer ones.

    Attributes:
        last: Last tokens of the words whose other tokens are this tail.
        longer: The token before -> a longer tail.
    """

    last: set[int] = field(default_factory=set)
    longer: dict[int, _Tail] = field(default_factory=dict)


class BadWords:
    """Bad words of one request, looked up by the text before: the longest counts, not how many.

    Args:
        words: Token sequences; empty ones forbid nothing.
    """

    def __init__(self, words: Iterable[Sequence[int]]) -> None:
        self.words = words
        self._root = _Tail()
        for word in words:
            if word:
                self._add(word)

    def completing(self, history: Sequence[int], position: int) -> set[int]:
        """Last tokens of the words whose other tokens stand right before `position`."""
        tail, found = self._root, set(self._root.last)
        for at in range(position - 1, -1, -1):
            longer = tail.longer.get(history[at])
            if longer is None:
                break
            tail = longer
            found |= tail.last
        return found

    def _add(self, word: Sequence[int]) -> None:
        tail = self._root
        for token in word[-2::-1]:
            tail = tail.longer.setdefault(token, _Tail())
        tail.last.add(word[-1])


class BadWordsOfStep:
    """Keeps what was made of bad words for the requests of the step before."""

    def __init__(self) -> None:
        self._last: dict[int, BadWords] = {}

    def of(self, wishes: Iterable[tuple[int, SamplingParams]]) -> dict[int, BadWords]:
        """By request id, for those of a step's requests that have bad words."""
        self._last = {
            owner: self._continued(owner, wish) or BadWords(wish.bad_words)
            for owner, wish in wishes
            if wish.bad_words
        }
        return self._last

    def _continued(self, owner: int, wish: SamplingParams) -> BadWords | None:
        last = self._last.get(owner)
        return last if last is not None and last.words is wish.bad_words else None


NO_BAD_WORDS: Final = BadWords(())


def forbidden_tokens(
    sampling: SamplingParams,
    *,
    bad_words: BadWords,
    history: Sequence[int],
    position: int,
    num_prompt_tokens: int,
    end_token_ids: Iterable[int],
    vocab_size: int,
) -> set[int]:
    """Ids that the request's settings rule out at `position`.

    Before `min_tokens` these are the end-of-generation tokens, even those the request ignores,
    and its own stop tokens; at any time the last token of each bad word whose other tokens end
    the text before.

    Args:
        sampling: Settings of the request.
        bad_words: Those of `sampling`.
        history: Its tokens, prompt first, at least to `position`.
        position: Where the token would stand.
        num_prompt_tokens: How many of `history` are the prompt.
        end_token_ids: End-of-generation set of the model.
        vocab_size: Ids outside [0, vocab_size) are left out: no row of logits has them.
    """
    forbidden = bad_words.completing(history, position)
    if position - num_prompt_tokens < sampling.min_tokens:
        forbidden.update(end_token_ids, sampling.stop_token_ids)
    return {token for token in forbidden if 0 <= token < vocab_size}
