"""What became of one request, as its client saw it."""

from __future__ import annotations

from dataclasses import dataclass

COMPLETED = "length"
ABORTED = "abort"
"""The client left, before the first token or during the answer."""
FAILED = "error"
REFUSED = "refused"
UNFINISHED = "unfinished"
"""Still under way when the simulation ended."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One request.

    Attributes:
        arrival_s: When its client sent it.
        tier: Service tier.
        ttft_s: Until the first token; None where none came.
        e2e_s: Until the last token; None where the answer is not whole.
        gaps: Between its tokens so far.
        late_gaps: Of those, longer than each of `yardstick.itl_targets_ms`, in that order;
            may be empty where there are no gaps.
        outcome: One of the words above.
    """

    arrival_s: float
    tier: str
    ttft_s: float | None = None
    e2e_s: float | None = None
    gaps: int = 0
    late_gaps: tuple[int, ...] = ()
    outcome: str = COMPLETED

    @property
    def completed(self) -> bool:
        """Whether the answer is whole."""
        return self.e2e_s is not None

    @property
    def tpot_s(self) -> float | None:
        """Mean time per token after the first, of a whole answer of more than one."""
        if self.e2e_s is None or self.ttft_s is None or not self.gaps:
            return None
        return (self.e2e_s - self.ttft_s) / self.gaps
