"""Stop strings over a stream of token texts, held back at token boundaries. Pure.

The text of a token is released only once no stop string can begin in it; on a match the
output is cut right before the stop string, or right after it where it is to be shown, and
later tokens do not count. Of several stop strings the one whose last character comes with
the earliest token ends the output, among those the one that begins first.
"""

from __future__ import annotations

from collections import deque

from paceline_engine.server.stop_automaton import StopAutomaton


class StopFilter:
    """Releases the text of one output piece by piece.

    Args:
        stops: Stop strings of the call.
        includes_stop: Whether the stop string itself is shown.

    Attributes:
        match: The stop string that has ended the output; None while there was none.
    """

    __slots__ = ("_automaton", "_held_from", "_includes_stop", "_length", "_pieces", "_state",
                 "match")  # fmt: skip

    def __init__(self, stops: StopAutomaton, *, includes_stop: bool = False) -> None:
        self._automaton = stops
        self._state = stops.start
        self._includes_stop = includes_stop
        self._pieces: deque[str] = deque()
        self._held_from = 0  # characters released so far
        self._length = 0  # characters pushed so far
        self.match: str | None = None

    @property
    def num_held(self) -> int:
        """Latest pieces whose text is held back."""
        return len(self._pieces)

    def push(self, piece: str, *, may_match: bool = True) -> str:
        """Adds one token's text; returns what may be shown now.

        After a `match` everything further is dropped.

        Args:
            piece: The text.
            may_match: Whether a stop string that ends in this text counts.
        """
        if self._automaton.is_empty:
            return piece
        if self.match is not None:
            return ""
        self._pieces.append(piece)
        found = self._read(piece)
        if found is not None and may_match:
            start, length, self.match = found
            return self.flush()[: start + (length if self._includes_stop else 0)]
        return self._release(self._length - self._state.open_depth)

    def flush(self) -> str:
        """Ends the output: what was held back is shown, unless a stop string matched."""
        rest = "".join(self._pieces)
        self._pieces.clear()
        return rest

    def _read(self, piece: str) -> tuple[int, int, str] | None:
        """Where, in what is held, the first of the stop strings begins that end in `piece`."""
        found: list[tuple[int, int, str]] = []
        for character in piece:
            self._length += 1
            self._state = self._automaton.step(self._state, character)
            if (stop := self._state.stop) is not None:
                found.append((self._length - self._held_from - len(stop), len(stop), stop))
        return min(found, default=None)

    def _release(self, safe: int) -> str:
        """Takes the whole pieces that lie before position `safe` of the output."""
        released: list[str] = []
        while self._pieces and self._held_from + len(self._pieces[0]) <= safe:
            self._held_from += len(self._pieces[0])
            released.append(self._pieces.popleft())
        return "".join(released)
