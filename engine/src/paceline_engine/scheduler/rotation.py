"""A step's prefill divided between tenants, where it may be too short to hold a part for each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from paceline_engine.scheduler.share import Share, divide

LEAST_PART: Final = 16
"""Tokens that are worth a chunk."""
PATIENCE: Final = 8
"""Rounds that a tenant may be left out for its weight. So a prompt that holds blocks comes to
its end, however small its tenant's weight; and what weights do not say is an eighth at most."""


class Rotation:
    """Divides by weight between those served least for it, as many as a least part fits for.

    Whoever gets a part is charged for it, so others are served least the next time: over steps
    each gets its weight's share, in fewer and longer chunks.
    """

    def __init__(self) -> None:
        self._step = 0
        self._served: dict[str, int] = {}

    def begin(self, tenants: Collection[str]) -> None:
        """A step in which these have prompts to compute; others are forgotten."""
        self._step += 1
        self._served = {each: self._served.get(each, self._step) for each in tenants}

    def note(self, tenant: str) -> None:
        """Tokens of a tenant run in this step."""
        self._served[tenant] = self._step

    def divide(
        self,
        tokens: int,
        wanted: Mapping[str, float],
        shares: Mapping[str, Share],
        first: str | None = None,
    ) -> dict[str, int]:
        """See `divide` of shares; where there are too many, some get nothing this time.

        Args:
            tokens: To be divided, positive.
            wanted: Positive number of tokens each can use.
            shares: Of the same tenants.
            first: One of them whose turn it is, whatever the shares say.
        """
        if sum(map(_least, wanted.values())) <= tokens:
            return divide(tokens, wanted, shares)
        parts: dict[str, int] = {}
        if (left_out := self._left_out(tokens, wanted)) is not None:
            parts[left_out] = min(tokens, _least(wanted[left_out]))
            tokens -= parts[left_out]
        chosen: dict[str, float] = {}
        needed = 0
        others = wanted.keys() - parts
        for tenant in sorted(others, key=lambda each: (each != first, shares[each].tag, each)):
            needed += _least(wanted[tenant])
            if chosen and needed > tokens:
                break
            chosen[tenant] = wanted[tenant]
        return {**parts, **divide(tokens, chosen, shares)} if tokens else parts

    def _left_out(self, tokens: int, wanted: Mapping[str, float]) -> str | None:
        """Who has got nothing for too many rounds, if anyone has."""
        oldest = min(wanted, key=lambda each: self._served.get(each, self._step))
        steps = self._step - self._served.get(oldest, self._step)
        return oldest if steps * tokens > PATIENCE * LEAST_PART * len(wanted) else None


def _least(wanted: float) -> int:
    """Tokens of a least part, or of all that is wanted."""
    return LEAST_PART if wanted > LEAST_PART else int(wanted)
