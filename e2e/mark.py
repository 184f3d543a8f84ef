"""What on a cluster is a run's own, and what belongs to its users. Pure.

On somebody else's cluster a run installs only where nothing of Paceline is, or where all that
is there carries its mark; and it removes only what carries it.
"""

from __future__ import annotations

from dataclasses import dataclass

MARK = "paceline.dev/made-by"
BY = "e2e"
LABEL = f"{MARK}={BY}"
"""On releases, namespaces and definitions that a run made."""


@dataclass(frozen=True, slots=True)
class Found:
    """One thing that a run would make, as it is on the cluster.

    Attributes:
        what: Kind and name, in words.
        exists: Whether it is there.
        marked: Whether a run made it.
    """

    what: str
    exists: bool
    marked: bool

    @property
    def is_foreign(self) -> bool:
        """Whether it is there and somebody else's."""
        return self.exists and not self.marked


def foreign(found: tuple[Found, ...]) -> str | None:
    """In words what stands in the way of an installation, None where nothing does."""
    named = [each.what for each in found if each.is_foreign]
    return ", ".join(named) or None
