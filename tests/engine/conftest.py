"""Clients of engines that tests start: patient, for machines that are slow or busy."""

from __future__ import annotations

import functools
import gc

import httpx._transports.default as httpx_transports
from httpx._config import DEFAULT_TIMEOUT_CONFIG

PATIENCE_S = 60.0

# Every call without a timeout of its own has this one; its 5 s are short on a busy machine.
for phase in ("connect", "read", "write", "pool"):
    setattr(DEFAULT_TIMEOUT_CONFIG, phase, PATIENCE_S)

# Every call without a client of its own would read all certificates first, to speak plain HTTP.
httpx_transports.create_ssl_context = functools.cache(  # type: ignore[assignment]
    httpx_transports.create_ssl_context
)


def pytest_collection_finish() -> None:
    """What was imported stays: with torch and transformers, each look at it takes 0.5 s."""
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Extensions tell of what is not collected at the end."""
    gc.unfreeze()
