"""Tokens as clients see them: first ones, gaps between two, ends.

Every decode row has one gap in every step, as long as the step. So the gaps of a request, and the
late ones among them, are what has been counted of all steps since its first token; only a gap
that spans a preemption is looked at by itself.
"""

from __future__ import annotations

from math import inf

from paceline_operator.simulator.engine.entrance import Entrance
from paceline_operator.simulator.engine.pace import Pace
from paceline_operator.simulator.engine.sequence import Sequence
from paceline_operator.simulator.metering.target import longest_s
from paceline_operator.simulator.scoring.outcome import ABORTED, COMPLETED
from paceline_operator.simulator.sink import Sink


class Streams:
    """Keeps the records of requests, and tells of them.

    Args:
        sink: Told of first tokens, odd gaps and ends.
        entrance: Told who waits no more, and who is over.

    Attributes:
        open: Requests that are not over, by id.
        prompt_tokens: Of requests that got their first token.
        generation_tokens: Given out.
    """

    def __init__(self, sink: Sink, entrance: Entrance) -> None:
        self.open: dict[int, Sequence] = {}
        self.prompt_tokens = 0
        self.generation_tokens = 0
        self._sink = sink
        self._entrance = entrance
        self._limits_s: tuple[float, ...] = ()
        self._late: list[int] = []

    def compare_with(self, targets_ms: tuple[int, ...], steps: int) -> None:
        """Compares gaps with other ITL targets from now on."""
        known = {limit_s: place for place, limit_s in enumerate(self._limits_s)}
        limits_s = tuple(longest_s(target_ms) for target_ms in targets_ms)
        for each in self.open.values():
            if each.is_decoding:
                self._count(each, steps)
            late = each.served.late_gaps
            each.served.late_gaps = tuple(
                late[known[limit_s]] if late and limit_s in known else 0 for limit_s in limits_s
            )
        self._limits_s = limits_s
        self._late = [0] * len(limits_s)
        for each in self.open.values():
            self._mark(each, steps)

    def admit(self, sequence: Sequence) -> None:
        """A request was accepted."""
        served = sequence.served
        served.late_gaps = (0,) * len(self._limits_s)
        self.open[served.id] = sequence
        self._sink.admitted(served)

    def ran(self, pace: Pace, steps: int, rows: int) -> None:
        """So many steps have run at a pace."""
        self.generation_tokens += steps * rows
        for place, limit_s in enumerate(self._limits_s):
            self._late[place] += pace.longer_than(limit_s, steps)

    def draw(self, sequence: Sequence, end_s: float, steps: int) -> None:
        """A request whose text was computed in a step got a token at its end."""
        self._mark(sequence, steps)
        served = sequence.served
        if served.ended_s < inf:
            return
        self.generation_tokens += 1
        before_s, served.last_s = served.last_s, end_s
        if before_s is not None:
            self._count_odd(sequence, end_s - before_s)
            return
        served.first_s = end_s
        self.prompt_tokens += sequence.prompt
        self._entrance.start(sequence, end_s)
        self._sink.first_token(served)

    def pause(self, sequence: Sequence, now_s: float, steps: int) -> None:
        """A row yields its blocks between two steps."""
        if sequence.served.ended_s == inf:
            self._count(sequence, steps)
            sequence.served.last_s = now_s

    def end(self, sequence: Sequence, end_s: float, steps: int) -> None:
        """A request got its last token."""
        if sequence.served.ended_s == inf:
            self._count(sequence, steps)
            self._close(sequence, end_s, end_s, COMPLETED)

    def give_up(self, sequence: Sequence, now_s: float, last_end_s: float, steps: int) -> None:
        """A request's client has left.

        Args:
            sequence: The request.
            now_s: When.
            last_end_s: End of the last step that has run.
            steps: Steps that have run.
        """
        last_s = sequence.served.last_s
        if sequence.is_decoding:
            sequence.known = steps + sequence.offset + 1
            self._count(sequence, steps)
            last_s = last_end_s
        self._close(sequence, now_s, last_s, ABORTED)

    def _close(self, sequence: Sequence, now_s: float, last_s: float | None, outcome: str) -> None:
        served = sequence.served
        served.tokens = sequence.known - sequence.prompt
        served.last_s, served.ended_s = last_s, now_s
        del self.open[served.id]
        self._entrance.end(sequence)
        self._sink.ended(served, outcome)

    def _mark(self, sequence: Sequence, steps: int) -> None:
        """A run of gaps begins."""
        sequence.gaps_before = steps
        sequence.late_before = tuple(self._late)

    def _count(self, sequence: Sequence, steps: int) -> None:
        """A run of gaps is over."""
        served = sequence.served
        served.gaps += steps - sequence.gaps_before
        served.late_gaps = tuple(
            late + now - before
            for late, now, before in zip(
                served.late_gaps, self._late, sequence.late_before, strict=True
            )
        )

    def _count_odd(self, sequence: Sequence, gap_s: float) -> None:
        served = sequence.served
        served.gaps += 1
        served.late_gaps = tuple(
            late + (gap_s > limit_s)
            for late, limit_s in zip(served.late_gaps, self._limits_s, strict=True)
        )
        self._sink.gap(served, gap_s)
