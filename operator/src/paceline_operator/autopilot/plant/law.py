"""The step-time law: T = a + b_p prefill + b_d rows + c k + e (chunk x context), in ms."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLoad:
    """What one engine step carries.

    Attributes:
        prefill_tokens: Prompt tokens.
        decode_rows: Decoding sequences.
        kv_tokens: Resident KV tokens it reads.
        chunk_context: Sum over chunks of chunk length x context.
    """

    prefill_tokens: float = 0.0
    decode_rows: float = 0.0
    kv_tokens: float = 0.0
    chunk_context: float = 0.0

    def value(self, variable: str) -> float:
        """By the letter that moments use: n, p, d, k or x."""
        return {
            "n": 1.0,
            "p": self.prefill_tokens,
            "d": self.decode_rows,
            "k": self.kv_tokens,
            "x": self.chunk_context,
        }[variable]


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """Coefficients, milliseconds per unit."""

    base_ms: float
    per_prefill_token_ms: float = 0.0
    per_decode_row_ms: float = 0.0
    per_kv_token_ms: float = 0.0
    per_chunk_context_ms: float = 0.0

    def coefficient(self, variable: str) -> float:
        """By the letter that moments use."""
        return {
            "n": self.base_ms,
            "p": self.per_prefill_token_ms,
            "d": self.per_decode_row_ms,
            "k": self.per_kv_token_ms,
            "x": self.per_chunk_context_ms,
        }[variable]

    def step_ms(self, load: StepLoad) -> float:
        """Predicted time of one step."""
        return self.time_ms(
            load.prefill_tokens, load.decode_rows, load.kv_tokens, load.chunk_context
        )

    def time_ms(
        self, prefill_tokens: float, decode_rows: float, kv_tokens: float, chunk_context: float
    ) -> float:
        """The same of bare figures: capacity is searched for with thousands of steps a tick."""
        return (
            self.base_ms
            + self.per_prefill_token_ms * prefill_tokens
            + self.per_decode_row_ms * decode_rows
            + self.per_kv_token_ms * kv_tokens
            + self.per_chunk_context_ms * chunk_context
        )
