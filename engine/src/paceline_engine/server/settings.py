"""What the server needs to know at start, apart from the engine's own configuration."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Settings of the server process.

    Attributes:
        model_name: Name clients use, and the `model_name` label.
        drain_seconds: How long running requests may take after SIGTERM and the grace.
        drain_grace_seconds: How long a draining server still accepts.
        max_queued_requests: Requests that may wait for their first token.
        max_queued_tokens: Prompt tokens of those requests.
        max_body_bytes: Largest request body.
    """

    model_name: str
    drain_seconds: float = 300.0
    drain_grace_seconds: float = 5.0
    max_queued_requests: int = 1024
    max_queued_tokens: int = 1_000_000
    max_body_bytes: int = 8 * 1024 * 1024
