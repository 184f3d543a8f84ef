"""One request against the objectives that were in force when it came."""

from __future__ import annotations

from paceline_engine.server.admin_wire import Slo, SloMetric
from paceline_engine.server.slo import CallLater, Deadline, GapTally, SloBoard


class Judgement:
    """Feeds each objective of the request's tier its samples, exactly once each.

    Args:
        board: Counts them.
        slos: The objectives.
        call_later: Timer of the event loop.
        elapsed_s: Since the request's first byte.
    """

    def __init__(
        self, board: SloBoard, slos: tuple[Slo, ...], call_later: CallLater, elapsed_s: float
    ) -> None:
        self._board = board

        def deadlines(metric: SloMetric) -> list[Deadline]:
            found = (slo for slo in slos if slo.metric is metric)
            return [Deadline(board, slo, call_later, elapsed_s) for slo in found]

        self._ttft, self._e2e = deadlines(SloMetric.TTFT), deadlines(SloMetric.E2E)
        self._gaps = [GapTally(board, slo) for slo in slos if slo.metric is SloMetric.ITL]
        self._tpot = [slo for slo in slos if slo.metric is SloMetric.TPOT]

    def started(self, latency_s: float) -> None:
        """The first token came."""
        for deadline in self._ttft:
            deadline.meet(latency_s)

    def gap(self, gap_s: float) -> None:
        """Another emission came."""
        for tally in self._gaps:
            tally.add(gap_s)

    def completed(self, latency_s: float, tpot_s: float | None) -> bool:
        """The answer is whole.

        Args:
            latency_s: From the first byte.
            tpot_s: Mean time per output token; None where it had fewer than two.

        Returns:
            Whether it met every TTFT and ITL objective.
        """
        for deadline in self._e2e:
            deadline.meet(latency_s)
        if tpot_s is not None:
            for slo in self._tpot:
                self._board.count(slo, good=tpot_s * 1e3 <= slo.target_ms)
        return not self._is_late()

    def abandoned(self, open_gap_s: float | None, *, is_error: bool) -> bool:
        """The request ended without a whole answer.

        A client that left in time, or asked for what cannot be, makes no sample; an error of
        ours is bad.

        Args:
            open_gap_s: Since the last emission; None where there was none.
            is_error: Whether it was our fault.

        Returns:
            Whether it counts as missed; False is no verdict.
        """
        for deadline in (*self._ttft, *self._e2e):
            if is_error:
                deadline.expire()
            else:
                deadline.withdraw()
        if open_gap_s is not None:
            for tally in self._gaps:
                tally.add_if_late(open_gap_s)
        if is_error:
            for slo in self._tpot:
                self._board.count(slo, good=False)
        return is_error or self._is_late()

    def _is_late(self) -> bool:
        late_start = any(deadline.late for deadline in self._ttft)
        return late_start or not all(tally.met for tally in self._gaps)
