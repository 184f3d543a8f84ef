"""Why a request got no token in a step."""

from __future__ import annotations

from enum import StrEnum

from paceline_engine.request import Fault


class Failure(StrEnum):
    """Ends one request and leaves its batch mates alone; the value is one line for people."""

    NON_FINITE = "the model gave logits that are not finite for this request"
    OVERFLOW = "the penalties of this request take its logits out of range"
    EXHAUSTED = "the settings of this request leave no token to draw"
    OUTSIDE = "the token drawn for this request is outside the vocabulary"

    @property
    def fault(self) -> Fault | None:
        """What of the request's own settings is why; None where they are not."""
        if self is Failure.OVERFLOW:
            return Fault.OVERFLOW
        return Fault.EXHAUSTED if self is Failure.EXHAUSTED else None
