"""What a fleet was started with and keeps, though the installation's choice may change.

It is remembered in the object's status, which only the operator may write, read from there once
by each process, and never from the Deployment: what someone writes there must not become what is
wanted. An object restored from a backup has no status: it takes the installation's choice of then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paceline_operator.api.choice import RolloutStrategy

KEY = "engines"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """Choices that hold while the fleet lives.

    Attributes:
        image: Image the engine pods were started with, None before there were any.
        startup: Hash of the start-up part of the spec at that time; with another one, the image
            is chosen anew.
        strategy: How the rollout strategy `Auto` was resolved last.
    """

    image: str | None = None
    startup: str | None = None
    strategy: RolloutStrategy | None = None


def load(status: Any) -> Pinned:
    """From a stored status; what cannot be read is not pinned."""
    memory = status.get("memory") if isinstance(status, Mapping) else None
    stored = memory.get(KEY) if isinstance(memory, Mapping) else None
    if not isinstance(stored, Mapping):
        return Pinned()
    return Pinned(
        image=_text(stored.get("image")),
        startup=_text(stored.get("startup")),
        strategy=next((s for s in RolloutStrategy if s.value == stored.get("strategy")), None),
    )


def dump(pinned: Pinned) -> dict[str, str]:
    """As JSON values for the status."""
    found = {
        "image": pinned.image,
        "startup": pinned.startup,
        "strategy": None if pinned.strategy is None else pinned.strategy.value,
    }
    return {key: value for key, value in found.items() if value is not None}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
