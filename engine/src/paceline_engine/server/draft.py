"""A choice of a whole answer while it grows, kept in little memory. Pure.

An answer may hold a million log-probabilities; as objects they take fifteen times as much.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from io import StringIO

from paceline_engine.message import TokenLogprobs
from paceline_engine.server.piece import Opening, Piece, ScoredToken


class PackedScores:
    """Tokens with their log-probabilities as bare numbers; objects are made as one iterates."""

    def __init__(self) -> None:
        self._token_ids = array("q")
        self._logprobs = array("d")
        self._ranks = array("q")
        self._offsets = array("q")
        self._counts = array("H")  # of the best ones at each place
        self._top_ids = array("i")
        self._top_logprobs = array("d")

    def append(self, token: ScoredToken) -> None:
        """Adds the next."""
        scores = token.scores
        self._token_ids.append(scores.token_id)
        self._logprobs.append(scores.logprob)
        self._ranks.append(scores.rank)
        self._offsets.append(token.offset)
        self._counts.append(len(scores.top))
        for token_id, logprob in scores.top:
            self._top_ids.append(token_id)
            self._top_logprobs.append(logprob)

    def __len__(self) -> int:
        return len(self._token_ids)

    def __iter__(self) -> Iterator[ScoredToken]:
        places = zip(
            self._token_ids, self._logprobs, self._ranks, self._offsets, self._counts, strict=True
        )
        end = 0
        for token_id, logprob, rank, offset, count in places:
            begin, end = end, end + count
            best = zip(self._top_ids[begin:end], self._top_logprobs[begin:end], strict=True)
            yield ScoredToken(TokenLogprobs(token_id, logprob, rank, tuple(best)), offset)


class Draft:
    """Takes the pieces of one choice until its last.

    Attributes:
        last: The latest piece.
    """

    last: Piece

    def __init__(self) -> None:
        self._text = StringIO()
        self._token_ids = array("q")
        self._scored = PackedScores()
        self._opening: Opening | None = None

    def add(self, piece: Piece) -> None:
        """Adds the next piece; the opening comes with the first."""
        self._text.write(piece.text)
        self._token_ids.extend(piece.token_ids)
        for token in piece.scored:
            self._scored.append(token)
        self._opening = self._opening or piece.opening
        self.last = piece

    def whole(self) -> Piece:
        """The choice, once it has a piece."""
        return Piece(
            text=self._text.getvalue(),
            token_ids=tuple(self._token_ids),
            scored=self._scored,
            opening=self._opening,
            finish_reason=self.last.finish_reason,
            stop_reason=self.last.stop_reason,
        )
