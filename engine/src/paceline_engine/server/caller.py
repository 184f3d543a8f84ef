"""Who calls and what the call's headers ask for."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Final

from starlette.datastructures import Headers

from paceline_engine.request import CacheScope
from paceline_engine.server.access import given_token
from paceline_engine.server.errors import BadRequestError
from paceline_engine.server.header import only
from paceline_engine.server.pressure import Pressure

TENANT_HEADER: Final = "x-paceline-tenant"
DEADLINE_HEADER: Final = "x-paceline-deadline-ms"
MAX_DEADLINE_MS: Final = 86_400_000  # a day
_TENANT: Final = re.compile(r"[\x21-\x7e]{1,128}")
_DIGEST_CHARS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whose call it is.

    Attributes:
        request_id: As echoed to the caller; the engine has its own, unique ids.
        cache_scope: With whom the prompts' KV may be shared.
        deadline_s: Wanted end of the wait for a first token, after receipt.
        pressure: Of the caller's connection.
    """

    request_id: str = ""
    cache_scope: CacheScope = field(default_factory=CacheScope)
    deadline_s: float | None = None
    pressure: Pressure = field(default_factory=Pressure, compare=False)


def read_caller(
    headers: Headers,
    request_id: str,
    *,
    trust_tenant: bool,
    cache_salt: str | None,
    pressure: Pressure | None = None,
) -> Caller:
    """Reads a call's headers.

    Args:
        headers: Of the call.
        request_id: As echoed.
        trust_tenant: Whether whoever stands in front of us vouches for the tenant header;
            else it says nothing.
        cache_salt: The body's.
        pressure: Of the connection, where that is known.

    Raises:
        BadRequestError: A header that counts is malformed or given twice.
    """
    scope = CacheScope(
        tenant=_tenant(headers) if trust_tenant else "",
        scope=key_digest(given_token(headers)),
        salt=cache_salt or "",
    )
    return Caller(
        request_id=request_id,
        cache_scope=scope,
        deadline_s=_deadline_s(headers),
        pressure=pressure or Pressure(),
    )


def key_digest(key: str | None) -> str:
    """Stands for an API key where the key itself must not be: 16 hex digits of its SHA-256."""
    if key is None:
        return ""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGEST_CHARS]


def _tenant(headers: Headers) -> str:
    tenant = only(headers, TENANT_HEADER) or ""
    if tenant and not _TENANT.fullmatch(tenant):
        raise BadRequestError(
            f"{TENANT_HEADER}: must be 1 to 128 printable ASCII characters without spaces",
            param=TENANT_HEADER,
        )
    return tenant


def _deadline_s(headers: Headers) -> float | None:
    text = only(headers, DEADLINE_HEADER)
    if text is None:
        return None
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(MAX_DEADLINE_MS))
    if not is_number or not 0 < int(text) <= MAX_DEADLINE_MS:
        raise BadRequestError(
            f"{DEADLINE_HEADER}: must be a whole number of milliseconds from 1 to "
            f"{MAX_DEADLINE_MS}",
            param=DEADLINE_HEADER,
        )
    return int(text) / 1e3
