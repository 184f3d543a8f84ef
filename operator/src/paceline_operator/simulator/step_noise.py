"""How far single steps of an engine lie from its law."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StepNoise:
    """Standard deviation of a step's time as a share of what the law says; 0 is none.

    Attributes:
        decode: Of steps without prompt tokens.
        prefill: Of steps with prompt tokens.
    """

    decode: float = 0.0
    prefill: float = 0.0


NO_NOISE = StepNoise()
