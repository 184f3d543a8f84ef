"""One limited amount: how much there is, may be, and how fast it leaves. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite

from paceline_engine.request import Tier
from paceline_engine.server.drain_rate import DrainRate, retry_after_s
from paceline_engine.server.errors import NeverFitsError, OverloadedError

BATCH_SHARE = 0.8
"""The batch tier may fill so much of each limit; the rest is kept for interactive calls."""

OPEN_SHARE = 0.5
"""So much of each limit is for whoever comes first; the rest is shared among tenants."""


@dataclass(slots=True)
class Level:
    """One limited amount.

    Attributes:
        code: Rejection reason.
        text: What is there, for people; `{}` is the amount.
        limit: Most that may be there.
        used: What is there, by tier.
        drain: How fast it leaves.
        stood_since: When something of a tier was last served, or came where nothing of it was.
        weights: Of tenants, where they are not 1; None where all callers are one tenant.
        held: What is there, by tenant.
    """

    code: str
    text: str
    limit: float
    used: dict[Tier, int] = field(default_factory=lambda: dict.fromkeys(Tier, 0))
    drain: DrainRate = field(default_factory=DrainRate)
    stood_since: dict[Tier, float] = field(default_factory=lambda: dict.fromkeys(Tier, 0.0))
    weights: Mapping[str, float] | None = None
    held: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """What is there, of both tiers."""
        return sum(self.used.values())

    def add(self, tier: Tier, amount: int, now_s: float, tenant: str = "") -> None:
        """So much came."""
        if not self.used[tier]:
            self.stood_since[tier] = now_s
        self.used[tier] += amount
        self.held[tenant] = self.held.get(tenant, 0) + amount
        self.drain.came(amount, now_s)

    def remove(
        self, tier: Tier, amount: int, now_s: float, tenant: str = "", *, served: bool
    ) -> None:
        """So much is gone; only what was served tells how fast the rest will be."""
        self.used[tier] -= amount
        held = self.held.pop(tenant, 0) - amount
        if held:
            self.held[tenant] = held
        if served:
            self.drain.left(amount, now_s)
            if amount:
                self.stood_since[tier] = now_s
        else:
            self.drain.gone(amount)

    def waited_s(self, tier: Tier, now_s: float) -> float:
        """How long what a call of a tier comes after has been there, none of it served."""
        if tier is Tier.BATCH:
            return self.drain.waited_s(now_s)
        return max(0.0, now_s - self.stood_since[tier]) if self.used[tier] else 0.0

    def limit_of(self, tier: Tier) -> float:
        """Most that may be there for a call of a tier to enter."""
        if tier is Tier.INTERACTIVE or not isfinite(self.limit):
            return self.limit
        return max(1, int(self.limit * BATCH_SHARE))

    def check_ever(self, amount: int, tier: Tier, named: str) -> None:
        """Whether so much may ever come at once.

        Args:
            amount: How much.
            tier: Of the call that brings it.
            named: The amount, for people.

        Raises:
            NeverFitsError: It may not, however little is there.
        """
        if amount > self.limit_of(tier):
            raise NeverFitsError(
                f"the call asks for {named} and the limit is {self.limit_text(tier)}; it can "
                "never be served whole: ask for less, or in several calls"
            )

    def check_now(self, amount: int, tier: Tier, now_s: float) -> None:
        """Whether so much more may come now.

        Raises:
            OverloadedError: It may not; says what is there, what may be, and when to come again.
        """
        excess = self.total + amount - self.limit_of(tier)
        if excess > 0:
            raise OverloadedError(
                f"{self.text.format(self.total)} and the limit is {self.limit_text(tier)}; "
                "retry later",
                code=self.code,
                retry_after_s=retry_after_s(
                    excess, self.drain.per_second(now_s), self.drain.waited_s(now_s)
                ),
            )

    def check_share(self, amount: int, tier: Tier, tenant: str, now_s: float) -> None:
        """Whether a tenant may bring so much more where half of the limit is used.

        From there on a tenant may hold its weighted share of the other half, among those that
        hold something; one that holds nothing is let in.

        Raises:
            OverloadedError: It may not now.
        """
        held = self.held.get(tenant, 0)
        if self.weights is None or not held or not isfinite(self.limit):
            return
        limit = self.limit_of(tier)
        share = (1 - OPEN_SHARE) * limit * self._weight(tenant) / sum(map(self._weight, self.held))
        excess = min(held + amount - share, self.total + amount - OPEN_SHARE * limit)
        if excess > 0:
            raise OverloadedError(
                f"{self.text.format(self.total)}, {held} of them of this tenant, whose share is "
                f"{share:.0f} while more than half of {self.limit_text(tier)} is used; retry later",
                code=self.code,
                retry_after_s=retry_after_s(
                    excess, self.drain.per_second(now_s), self.drain.waited_s(now_s)
                ),
            )

    def _weight(self, tenant: str) -> float:
        return (self.weights or {}).get(tenant, 1.0)

    def limit_text(self, tier: Tier) -> str:
        """The limit of a tier, for people."""
        return limit_text(f"{self.limit_of(tier):.0f}", tier)


def limit_text(limit: str, tier: Tier) -> str:
    """A limit, saying so where it is only the batch tier's share."""
    if tier is Tier.INTERACTIVE:
        return limit
    return f"{limit} for the batch tier ({BATCH_SHARE:.0%} of it)"
