"""Parts of one choice's answer, as they pass from the engine to whatever writes them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from paceline_engine.message import TokenLogprobs


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """A token of the answer with its log-probabilities.

    Attributes:
        scores: Its own and those of the best at its place.
        offset: Characters of the choice's text before the token's own; a token that goes on
            inside a character begins where that character does.
    """

    scores: TokenLogprobs
    offset: int


class Scored(Protocol):
    """Some `ScoredToken`, which may be made only as they are asked for."""

    def __len__(self) -> int:
        """How many."""
        ...

    def __iter__(self) -> Iterator[ScoredToken]:
        """In order."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What a choice says of its prompt; comes with its first piece.

    Attributes:
        token_ids: The prompt.
        text: The prompt as echoed; empty without echo.
        offsets: Where each prompt token begins in it; empty without echo.
        scores: Log-probabilities of tokens 2 to the last; empty where nobody asked.
    """

    token_ids: tuple[int, ...]
    text: str = ""
    offsets: tuple[int, ...] = ()
    scores: tuple[TokenLogprobs, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What may be shown of a choice; the last one has a finish reason.

    Attributes:
        text: New text, without the opening's.
        token_ids: Tokens whose text this releases, in order, those without text too.
        scored: The same with log-probabilities, where they were asked for.
        opening: In a first piece, where something of the prompt is shown.
        finish_reason: `stop` or `length` in the last piece.
        stop_reason: The stop string or the caller's stop token that ended the output.
    """

    text: str = ""
    token_ids: tuple[int, ...] = ()
    scored: Scored = ()
    opening: Opening | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None

    @property
    def shown(self) -> str:
        """New text, an echoed prompt's included."""
        return self.opening.text + self.text if self.opening else self.text


def mean_logprob(choice: Piece) -> float:
    """Mean log-probability of a choice's tokens; minus infinity where it has none."""
    if not len(choice.scored):
        return float("-inf")
    return sum(token.scores.logprob for token in choice.scored) / len(choice.scored)


def best(choices: Sequence[Piece], count: int) -> list[Piece]:
    """The `count` choices with the highest mean log-probability, best first."""
    return sorted(choices, key=mean_logprob, reverse=True)[:count]
