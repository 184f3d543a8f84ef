"""Who undoes again and again what the operator does, and how often that is then done again.

Twice it is done at once; from the third time on within ten minutes, once a minute. So a single
change is mended in moments, and a second controller costs neither server nor engines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from paceline_operator.domain.field_set import is_own
from paceline_operator.domain.names import OPERATOR
from paceline_operator.domain.pods import seconds

WINDOW_S = 600.0
PAUSE_S = 60.0
AT_ONCE = 2
SOMEONE = "someone"
_NEVER = float("-inf")

Key = tuple[str, str, str]
"""Kind and name of what is contested, and by whom."""


@dataclass(frozen=True, slots=True)
class Contest:
    """One thing that is contested.

    Attributes:
        done_s: When it was done again lately, oldest first.
        held_s: When it was last left undone for a while.
    """

    done_s: tuple[float, ...] = ()
    held_s: float = _NEVER

    def is_due(self, now_s: float) -> bool:
        """Whether it is to be done again now."""
        recent = self._recent(now_s)
        return len(recent) < AT_ONCE or now_s - recent[-1] >= PAUSE_S

    def after(self, now_s: float) -> Contest:
        """It was undone again: what is known then, whether or not it is due."""
        if not self.is_due(now_s):
            return replace(self, held_s=now_s)
        return replace(self, done_s=(*self._recent(now_s), now_s))

    def is_told(self, now_s: float) -> bool:
        """Whether people should hear of it."""
        return len(self._recent(now_s)) > AT_ONCE or now_s - self.held_s <= WINDOW_S

    def is_over(self, now_s: float) -> bool:
        """Whether it can be forgotten."""
        return not self._recent(now_s) and not self.is_told(now_s)

    def _recent(self, now_s: float) -> tuple[float, ...]:
        return tuple(each for each in self.done_s if now_s - each <= WINDOW_S)


def pruned(contests: Mapping[Key, Contest], now_s: float) -> dict[Key, Contest]:
    """Without those that are over."""
    return {key: each for key, each in contests.items() if not each.is_over(now_s)}


def told(contests: Mapping[Key, Contest], kinds: Iterable[str], now_s: float) -> tuple[str, ...]:
    """What is contested of some kinds, in words."""
    return tuple(
        f"{kind} {name} by {manager}"
        for (kind, name, manager), each in sorted(contests.items())
        if kind in kinds and each.is_told(now_s)
    )


def taker(live: Mapping[str, Any]) -> str:
    """Who wrote an object last, but for the operator and for statuses.

    Whoever only removed fields may own none, and is known by no name.
    """
    others = [
        each
        for each in live["metadata"].get("managedFields") or ()
        if not is_own(each)
        and each.get("manager") != OPERATOR
        and each.get("subresource") != "status"
    ]
    last: Mapping[str, Any] = max(
        others, key=lambda each: seconds(each.get("time")) or 0.0, default={}
    )
    return str(last.get("manager") or SOMEONE)
