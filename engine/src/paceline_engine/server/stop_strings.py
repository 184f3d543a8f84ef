"""Stop strings over a stream of token texts, held back at token boundaries. Pure.

The text of a token is released only once no stop string can begin in it; on a match the
output is cut right before the stop string, and later tokens do not count.
"""

from __future__ import annotations

from collections.abc import Sequence


def _partial_match_start(text: str, stops: Sequence[str]) -> int:
    """Index where the longest tail of `text` begins that may still become a stop string."""
    start = len(text)
    for stop in stops:
        longest = min(len(stop) - 1, len(text))
        for length in range(longest, 0, -1):
            if stop.startswith(text[-length:]):
                start = min(start, len(text) - length)
                break
    return start


class StopFilter:
    """Releases the text of one output piece by piece.

    Attributes:
        matched: Whether a stop string has ended the output.
    """

    __slots__ = ("_pieces", "_stops", "matched")

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._pieces: list[str] = []
        self.matched = False

    def push(self, piece: str) -> str:
        """Adds one token's text; returns what may be shown now.

        Once `matched`, everything further is dropped.
        """
        if self.matched:
            return ""
        if not self._stops:
            return piece
        self._pieces.append(piece)
        held = "".join(self._pieces)
        cut = self._first_match(held)
        if cut is not None:
            self.matched = True
            self._pieces.clear()
            return held[:cut]
        return self._release(_partial_match_start(held, self._stops))

    def flush(self) -> str:
        """Ends the output: what was held back is shown, unless a stop string matched."""
        rest = "".join(self._pieces)
        self._pieces.clear()
        return rest

    def _first_match(self, held: str) -> int | None:
        found = [index for stop in self._stops if (index := held.find(stop)) >= 0]
        return min(found, default=None)

    def _release(self, safe: int) -> str:
        """Takes the whole pieces that lie before `safe`."""
        released: list[str] = []
        position = 0
        for piece in self._pieces:
            if position + len(piece) > safe:
                break
            position += len(piece)
            released.append(piece)
        del self._pieces[: len(released)]
        return "".join(released)
