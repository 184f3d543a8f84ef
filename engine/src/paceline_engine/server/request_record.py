"""What is kept of a request that has ended: numbers and names, never a text."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import msgspec

from paceline_engine.request import Tier

_DIGEST_CHARS = 16


class RequestRecord(msgspec.Struct, frozen=True):
    """One line of the request log. Times are in seconds; None where there is none.

    Attributes:
        request_id: As the answer's `X-Request-Id` says; equal for all requests of a call.
        index: Which choice of the answer it is.
        tier: Service tier.
        tenant: Digest of the tenant's name; empty for the one that all share.
        outcome: One of the outcomes of `requests_total`.
        received_at: Unix time of the call's first byte.
        prompt_tokens: Length of the prompt.
        cached_tokens: Part of it that came from the prefix cache; None before the first token.
        output_tokens: Tokens drawn for the answer so far, the one that ended it included.
        emissions: How often something was written, or could have been.
        queue_s: From its hand-over to the engine to the first step with a part of it.
        ttft_s: From the first byte to the first emission.
        mean_itl_s: Mean of the gaps between emissions.
        e2e_s: From the first byte to the end.
    """

    request_id: str
    index: int
    tier: str
    tenant: str
    outcome: str
    received_at: float
    prompt_tokens: int
    cached_tokens: int | None
    output_tokens: int
    emissions: int
    queue_s: float | None
    ttft_s: float | None
    mean_itl_s: float | None
    e2e_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Whose request it is.

    Attributes:
        request_id: As echoed to the caller.
        index: Which choice of the answer.
        tier: Service tier.
        tenant: Name of the tenant; empty where all share one.
    """

    request_id: str = ""
    index: int = 0
    tier: Tier = Tier.INTERACTIVE
    tenant: str = ""


def tenant_digest(tenant: str) -> str:
    """What stands for a tenant's name in the log; empty for the empty name."""
    if not tenant:
        return ""
    return hashlib.sha256(tenant.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGEST_CHARS]
