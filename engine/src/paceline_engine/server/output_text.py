"""From drawn tokens to text that may be shown, and the tokens that belong to it. Pure.

Text is shown in whole code points and up to a stop string; tokens, log-probabilities and
the count of both are cut at the token that completes the stop string. Tokens are handed
out with the text they belong to, so a stream's chunks add up to the whole answer.
"""

from __future__ import annotations

from paceline_engine.message import TokenLogprobs
from paceline_engine.server.piece import Piece, ScoredToken
from paceline_engine.server.stop_strings import StopFilter
from paceline_engine.tokenizer import IncrementalDecoder


class OutputText:
    """Text of one output.

    Args:
        decoder: Fresh decoder of the tokenizer.
        stops: Stop strings.
        min_tokens: A stop string completed by one of so many first tokens does not count.
        offset: Characters shown before the output: an echoed prompt's.

    Attributes:
        num_tokens: Tokens of the output so far.
    """

    def __init__(
        self,
        decoder: IncrementalDecoder,
        stops: StopFilter,
        *,
        min_tokens: int = 0,
        offset: int = 0,
    ) -> None:
        self._decoder = decoder
        self._stops = stops
        self._min_tokens = min_tokens
        self._offset = offset
        self._token_ids: list[int] = []
        self._scored: list[ScoredToken] = []
        self._shown: list[str] = []
        self.num_tokens = 0

    @property
    def stop(self) -> str | None:
        """The stop string that has ended the output."""
        return self._stops.match

    def push(self, token_id: int, scores: TokenLogprobs | None = None) -> None:
        """Adds a token; not after `stop`."""
        self.num_tokens += 1
        self._token_ids.append(token_id)
        if scores is not None:
            self._scored.append(ScoredToken(scores, self._offset))
        self._add(self._decoder.push((token_id,)))

    def show(self, token_id: int) -> None:
        """Adds the text of a token that is no part of the output: a shown stop token."""
        self._add(self._decoder.push((token_id,)))

    def finish(self) -> None:
        """Ends the output: nothing is held back any more."""
        self._add(self._decoder.flush())
        self._shown.append(self._stops.flush())

    def take(self) -> Piece:
        """What may be shown since the last call; tokens wait for the next text."""
        text = "".join(self._shown)
        return self._take(text, len(self._token_ids) - self._stops.num_held if text else 0)

    def take_all(self) -> Piece:
        """What is left, once the output has ended."""
        return self._take("".join(self._shown), len(self._token_ids))

    def _add(self, text: str) -> None:
        self._offset += len(text)
        may_match = self.num_tokens > self._min_tokens
        self._shown.append(self._stops.push(text, may_match=may_match))

    def _take(self, text: str, count: int) -> Piece:
        piece = Piece(
            text=text,
            token_ids=tuple(self._token_ids[:count]),
            scored=tuple(self._scored[:count]),
        )
        self._shown.clear()
        del self._token_ids[:count]
        del self._scored[:count]
        return piece
