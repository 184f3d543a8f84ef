"""Which blocks a purge is about, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass

from paceline_engine.request import CacheScope


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """All blocks that match every part given; None matches all.

    Attributes:
        tenant: Tenant they belong to.
        scope: Its authorisation scope.
        salt: The caller's salt.
        older_than_s: Unused for at least so long; a block in use has age 0.
    """

    tenant: str | None = None
    scope: str | None = None
    salt: str | None = None
    older_than_s: float | None = None

    def covers(self, scope: CacheScope) -> bool:
        """Whether blocks of this scope are meant, of some age."""
        return (
            self.tenant in (None, scope.tenant)
            and self.scope in (None, scope.scope)
            and self.salt in (None, scope.salt)
        )

    def reaches(self, age_s: float) -> bool:
        """Whether blocks of this age are meant, of some scope."""
        return self.older_than_s is None or age_s >= self.older_than_s

    def matches(self, scope: CacheScope, age_s: float) -> bool:
        """Whether blocks of this scope and age are meant."""
        return self.covers(scope) and self.reaches(age_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Purged:
    """What a purge did.

    Attributes:
        block_ids: To overwrite now: the freed ones, and free ones that still hold what a
            request of the selection wrote there.
        freed: Cached blocks that became free.
        tokens: Tokens they held.
        held: Blocks in use: unfindable from now on, overwritten once nobody holds them.
    """

    block_ids: tuple[int, ...]
    freed: int
    tokens: int
    held: int
