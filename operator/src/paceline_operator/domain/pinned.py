"""What a fleet was started with and keeps, though the installation's choice may change.

That is the image, and which of the operator's own arguments engines were given.

It is remembered in the object's status, which only the operator may write, and read from there
once by each process. What someone writes on the Deployment must not become what is wanted: it is
read only where the status is of a version that remembered nothing, and only what is still the
operator's own there. An object restored from a backup has no status: it takes the installation's
choice of then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from paceline_operator.api.choice import RolloutStrategy
from paceline_operator.domain.field_set import owns

KEY = "engines"
IMAGE_BEFORE = "paceline.dev/engine-image"
STARTUP_BEFORE = "paceline.dev/startup-hash"
"""Annotations in which earlier versions remembered this on the Deployment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What engines are started with beside what the spec says.

    Attributes:
        image: Their image.
        defaults: Generation of the arguments that they get unasked; see `arguments`.
    """

    image: str
    defaults: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """Choices that hold while the fleet lives.

    Attributes:
        image: Image the engine pods were started with, None before there were any.
        startup: Hash of the start-up part of the spec at that time; with another one, the image
            is chosen anew.
        defaults: Generation of default arguments they were started with; versions that
            remembered none had the first.
        strategy: How the rollout strategy `Auto` was resolved last, None while the spec says it.
        next_image: Image of a start that was about to be written, None once it was.
        next_startup: Hash of the start-up part of the spec for that.
        next_defaults: Generation of default arguments for that.
    """

    image: str | None = None
    startup: str | None = None
    defaults: int = 0
    strategy: RolloutStrategy | None = None
    next_image: str | None = None
    next_startup: str | None = None
    next_defaults: int = 0

    def start_for(self, startup: str | None) -> Start | None:
        """What was chosen for a start-up part of the spec, None where nothing was."""
        if startup is None:
            return None
        if self.image and self.startup == startup:
            return Start(image=self.image, defaults=self.defaults)
        if self.next_image and self.next_startup == startup:
            return Start(image=self.next_image, defaults=self.next_defaults)
        return None

    def covers(self, wanted: Pinned) -> bool:
        """Whether a process that knows only this would choose the same."""
        start = self.start_for(wanted.startup)
        return (start, self.strategy) == (wanted.start_for(wanted.startup), wanted.strategy)

    def expecting(self, wanted: Pinned) -> Pinned:
        """With what is about to be written; whether that will be taken, nobody knows yet."""
        return replace(
            self,
            strategy=wanted.strategy,
            next_image=wanted.image,
            next_startup=wanted.startup,
            next_defaults=wanted.defaults,
        )


def load(status: Any) -> Pinned:
    """From a stored status; what cannot be read is not pinned."""
    stored = _memory(status).get(KEY)
    if not isinstance(stored, Mapping):
        return Pinned()
    return Pinned(
        image=_text(stored.get("image")),
        startup=_text(stored.get("startup")),
        defaults=_generation(stored.get("defaults")),
        strategy=next((s for s in RolloutStrategy if s.value == stored.get("strategy")), None),
        next_image=_text(stored.get("nextImage")),
        next_startup=_text(stored.get("nextStartup")),
        next_defaults=_generation(stored.get("nextDefaults")),
    )


def dump(pinned: Pinned) -> dict[str, str | int]:
    """As JSON values for the status; what says nothing is left out."""
    found = {
        "image": pinned.image,
        "startup": pinned.startup,
        "defaults": pinned.defaults or None,
        "strategy": None if pinned.strategy is None else pinned.strategy.value,
        "nextImage": pinned.next_image,
        "nextStartup": pinned.next_startup,
        "nextDefaults": pinned.next_defaults or None,
    }
    return {key: value for key, value in found.items() if value is not None}


def inherited(status: Any, deployment: Mapping[str, Any] | None) -> Pinned:
    """What a process begins with.

    Args:
        status: As it is stored.
        deployment: The engines' Deployment, which belongs to the object, None where there is none.
    """
    # An earlier version told of the fleet and remembered nothing of this in the status.
    has_told = isinstance(status, Mapping) and bool(status.get("conditions"))
    if KEY in _memory(status) or not has_told or deployment is None:
        return load(status)
    return _from_deployment(deployment)


def _from_deployment(live: Mapping[str, Any]) -> Pinned:
    metadata = live["metadata"]
    annotations = metadata.get("annotations") or {}
    image, startup = (
        _text(annotations.get(key))
        if owns(live, "f:metadata", "f:annotations", f"f:{key}")
        else None
        for key in (IMAGE_BEFORE, STARTUP_BEFORE)
    )
    strategy = None
    if owns(live, "f:spec", "f:strategy", "f:rollingUpdate", "f:maxSurge"):
        rolling = ((live.get("spec") or {}).get("strategy") or {}).get("rollingUpdate") or {}
        is_surge = rolling.get("maxSurge", 1) not in (0, "0", "0%")
        strategy = RolloutStrategy.SURGE if is_surge else RolloutStrategy.REPLACE
    return Pinned(image=image, startup=startup, strategy=strategy)


def _memory(status: Any) -> Mapping[str, Any]:
    memory = status.get("memory") if isinstance(status, Mapping) else None
    return memory if isinstance(memory, Mapping) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _generation(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0
