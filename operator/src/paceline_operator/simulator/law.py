"""How long a simulated engine's step takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from paceline_operator.autopilot.plant.law import Law


class StepTime(Protocol):
    """What a simulated engine asks of a law."""

    @property
    def per_kv_token_ms(self) -> float:
        """What each resident KV token adds to a step that only decodes."""

    def step_ms(
        self, prefill_tokens: int, decode_rows: int, kv_tokens: int, chunk_context: int
    ) -> float:
        """Time of one step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLaw:
    """Step time in milliseconds, with p prompt tokens, d decode rows, k resident KV tokens.

    T = max(floor_ms + floor_per_token_ms (p + d),
            base_ms + per_prefill_token_ms p + per_decode_row_ms d)
        + per_kv_token_ms k + per_chunk_context_ms x

    where x is the sum over chunks of chunk length x context, as in the autopilot's plant.
    """

    base_ms: float
    per_prefill_token_ms: float
    per_decode_row_ms: float
    per_kv_token_ms: float = 0.0
    per_chunk_context_ms: float = 0.0
    floor_ms: float = 0.0
    floor_per_token_ms: float = 0.0

    def step_ms(
        self, prefill_tokens: int, decode_rows: int, kv_tokens: int, chunk_context: int
    ) -> float:
        """Time of one step."""
        floor_ms = self.floor_ms + self.floor_per_token_ms * (prefill_tokens + decode_rows)
        line_ms = (
            self.base_ms
            + self.per_prefill_token_ms * prefill_tokens
            + self.per_decode_row_ms * decode_rows
        )
        memory_ms = self.per_kv_token_ms * kv_tokens + self.per_chunk_context_ms * chunk_context
        return max(floor_ms, line_ms) + memory_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedLaw:
    """Step time as the autopilot has fitted it: one law for each kind of steps.

    Attributes:
        decode: Of steps that only decode.
        prefill: Of steps with prompt tokens.
    """

    decode: Law
    prefill: Law

    @property
    def per_kv_token_ms(self) -> float:
        """What each resident KV token adds to a step that only decodes."""
        return self.decode.per_kv_token_ms

    def step_ms(
        self, prefill_tokens: int, decode_rows: int, kv_tokens: int, chunk_context: int
    ) -> float:
        """Time of one step."""
        law = self.prefill if prefill_tokens else self.decode
        return law.time_ms(prefill_tokens, decode_rows, kv_tokens, chunk_context)
