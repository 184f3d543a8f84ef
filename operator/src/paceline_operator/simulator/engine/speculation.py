"""Tokens guessed ahead and found right: a step gives each decode several at once."""

from __future__ import annotations

from typing import NamedTuple


class Speculation(NamedTuple):
    """How an engine speculates; as it stands here, not at all.

    Attributes:
        tokens: That each decode gets of a step.
        factor: How many times as long the decodes of a step take for it.
    """

    tokens: int = 1
    factor: float = 1.0


NO_SPECULATION = Speculation()
