"""Stop strings over a stream of token texts, held back at token boundaries. Pure.

The text of a token is released only once no stop string can begin in it; on a match the
output is cut right before the stop string, or right after it where it is to be shown, and
later tokens do not count. Of several stop strings the one whose last character comes with
the earliest token ends the output, among those the one that begins first.
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

    Args:
        stops: Stop strings.
        includes_stop: Whether the stop string itself is shown.

    Attributes:
        match: The stop string that has ended the output; None while there was none.
    """

    __slots__ = ("_includes_stop", "_pieces", "_stops", "match")

    def __init__(self, stops: Sequence[str], *, includes_stop: bool = False) -> None:
        self._stops = tuple(stops)
        self._includes_stop = includes_stop
        self._pieces: list[str] = []
        self.match: str | None = None

    @property
    def matched(self) -> bool:
        """Whether a stop string has ended the output."""
        return self.match is not None

    @property
    def num_held(self) -> int:
        """Latest pieces whose text is held back."""
        return len(self._pieces)

    def push(self, piece: str, *, may_match: bool = True) -> str:
        """Adds one token's text; returns what may be shown now.

        Once `matched`, everything further is dropped.

        Args:
            piece: The text.
            may_match: Whether a stop string that ends in this text counts.
        """
        if not self._stops:
            return piece
        if self.match is not None:
            return ""
        before = sum(map(len, self._pieces))
        self._pieces.append(piece)
        held = "".join(self._pieces)
        if may_match and (found := self._first_match(held, before)):
            start, self.match = found
            self._pieces.clear()
            return held[: start + len(self.match) if self._includes_stop else start]
        return self._release(_partial_match_start(held, self._stops))

    def flush(self) -> str:
        """Ends the output: what was held back is shown, unless a stop string matched."""
        rest = "".join(self._pieces)
        self._pieces.clear()
        return rest

    def _first_match(self, held: str, before: int) -> tuple[int, str] | None:
        """Start and text of the first stop string that ends after the first `before`."""
        found = [
            (start, len(stop), stop)
            for stop in self._stops
            if (start := held.find(stop, max(0, before - len(stop) + 1))) >= 0
        ]
        if not found:
            return None
        start, _length, stop = min(found)
        return start, stop

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
