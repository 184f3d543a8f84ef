"""A generation request as the engine loop sees it: token ids in, token ids out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from paceline_engine.sampling import SamplingParams


class Tier(StrEnum):
    """Service tier; OpenAI's `flex` is `BATCH`, every other one `INTERACTIVE`."""

    INTERACTIVE = "interactive"
    BATCH = "batch"

    __hash__ = str.__hash__  # `Enum`'s is a Python function, and tiers are keys of every look-up


class FinishReason(StrEnum):
    """Why a request's output ended."""

    STOP = "stop"  # an end-of-generation or stop token was drawn
    LENGTH = "length"  # max_tokens or the model's context is used up
    ABORT = "abort"  # the server withdrew it: client gone, or a stop string matched
    ERROR = "error"  # this request failed (non-finite logits); its batch mates go on


class Fault(StrEnum):
    """What of a request's own settings made it fail: its caller's to mend, not the engine's."""

    OVERFLOW = "overflow"  # its penalties take logits out of range
    EXHAUSTED = "exhausted"  # every token is ruled out


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheScope:
    """Whose KV it is: blocks are shared only where all three parts are equal.

    Attributes:
        tenant: Name of the tenant; also the unit of fair share.
        scope: Authorisation scope, such as a digest of the API key; never the key itself.
        salt: The caller's own `cache_salt`.
    """

    tenant: str = ""
    scope: str = ""
    salt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One admitted prompt.

    Attributes:
        request_id: Unique in this engine's life; made by the server, never the client's.
        prompt_token_ids: Non-empty; the server has checked that it fits.
        sampling: How to draw tokens.
        tier: Service tier.
        cache_scope: With whom its KV blocks may be shared.
        deadline_s: Wanted end of its wait, in seconds after receipt; breaks ties. None counts as a
            tenth of its tier's maximum wait.
        parent_id: Request of the same prompt and scope, submitted just before, whose KV it
            forks once that is computed (`n > 1`); with the parent gone it computes its own.
        received_s: Monotonic time of its being handed to the engine, from which it waits;
            None: when the engine takes it.
    """

    request_id: int
    prompt_token_ids: tuple[int, ...]
    sampling: SamplingParams
    tier: Tier = Tier.INTERACTIVE
    cache_scope: CacheScope = CacheScope()
    deadline_s: float | None = None
    parent_id: int | None = None
    received_s: float | None = None

    @property
    def tenant(self) -> str:
        """Unit of fair share inside a tier."""
        return self.cache_scope.tenant
