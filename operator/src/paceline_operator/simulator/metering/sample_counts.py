"""Good and bad samples of one objective."""

from __future__ import annotations

from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.autopilot.vocabulary.window import SloCounts
from paceline_operator.simulator.metering.target import longest_s


class SampleCounts:
    """SampleCounts since the last `take`.

    Attributes:
        limit_s: The longest time that meets the target.
    """

    __slots__ = ("_bad", "_good", "limit_s")

    def __init__(self, objective: Objective) -> None:
        self.limit_s = longest_s(objective.target_ms)
        self._good = 0
        self._bad = 0

    def add(self, good: int, bad: int) -> None:
        """Counts some."""
        self._good += good
        self._bad += bad

    def judge(self, time_s: float) -> None:
        """Counts one time."""
        late = time_s > self.limit_s
        self.add(not late, late)

    def take(self) -> SloCounts:
        """What was counted, which is then forgotten."""
        taken = SloCounts(float(self._good), float(self._bad))
        self._good = self._bad = 0
        return taken
