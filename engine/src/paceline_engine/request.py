"""A generation request as the engine loop sees it: token ids in, token ids out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from paceline_engine.sampling import SamplingParams


class Tier(StrEnum):
    """Service tier; the engine serves `INTERACTIVE` only for now."""

    INTERACTIVE = "interactive"
    BATCH = "batch"


class FinishReason(StrEnum):
    """Why a request's output ended."""

    STOP = "stop"  # an end-of-generation or stop token was drawn
    LENGTH = "length"  # max_tokens or the model's context is used up
    ABORT = "abort"  # the server withdrew it: client gone, or a stop string matched
    ERROR = "error"  # this request failed (non-finite logits); its batch mates go on


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One admitted prompt.

    Attributes:
        request_id: Unique in this engine's life; made by the server, never the client's.
        prompt_token_ids: Non-empty; the server has checked that it fits.
        sampling: How to draw tokens.
        tier: Service tier.
    """

    request_id: int
    prompt_token_ids: tuple[int, ...]
    sampling: SamplingParams
    tier: Tier = Tier.INTERACTIVE
