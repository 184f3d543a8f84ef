"""Stop strings of a call as one automaton, after Aho and Corasick (1975).

A character takes one step, amortised, however many and however long the stop strings are:
what a text may still become is never looked for again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class _State:
    """A beginning of a stop string: the longest that the text so far ends with.

    Attributes:
        longer: Next character -> state one character longer.
        shorter: State of the next shorter beginning that ends the same way.
        depth: Its length.
        stop: The longest stop string that it ends with; None where it ends with none.
        open_depth: Length of its longest end that may still grow into a stop string.
    """

    longer: dict[str, _State]
    shorter: _State | None
    depth: int
    stop: str | None = None
    open_depth: int = 0


class StopAutomaton:
    """Built once for all outputs of a call; outputs keep their own state.

    Args:
        stops: Stop strings, none empty.

    Attributes:
        start: State of an empty text.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self.start = _State({}, None, 0)
        for stop in stops:
            self._add(stop)
        self._link()

    @property
    def is_empty(self) -> bool:
        """Whether there are no stop strings."""
        return not self.start.longer

    def step(self, state: _State, character: str) -> _State:
        """The state after one more character."""
        at: _State | None = state
        while at is not None:
            if (found := at.longer.get(character)) is not None:
                return found
            at = at.shorter
        return self.start

    def _add(self, stop: str) -> None:
        state = self.start
        for depth, character in enumerate(stop, 1):
            state = state.longer.setdefault(character, _State({}, None, depth))
        state.stop = stop

    def _link(self) -> None:
        """Sets what follows from shorter states, which come first."""
        waiting = deque([self.start])
        while waiting:
            state = waiting.popleft()
            for character, longer in state.longer.items():
                shorter = (
                    self.start if state.shorter is None else self.step(state.shorter, character)
                )
                longer.shorter = shorter
                longer.stop = longer.stop or shorter.stop
                longer.open_depth = longer.depth if longer.longer else shorter.open_depth
                waiting.append(longer)
