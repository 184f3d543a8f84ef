"""What the server needs to know at start, apart from the engine's own configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from paceline_engine.server.queue_rule import QueueRule

BODY_DEADLINE_S: Final = 60.0
WRITE_DEADLINE_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Settings of the server process.

    Attributes:
        model_name: Name clients use, and the `model_name` label.
        drain_seconds: How long running requests may take after SIGTERM and the grace.
        drain_grace_seconds: How long a draining server still accepts.
        max_queued_requests: Requests that may wait for their first token.
        max_queued_tokens: Prompt tokens of those requests.
        trust_tenant_header: Whether `X-Paceline-Tenant` names the tenant; else all callers
            are one.
        max_queue_seconds: Longest wait for a first token that is still promised; beyond it
            429. None promises any, `QueueRule.SLO` what the TTFT objectives in force do.
        max_projected_kv: KV tokens that everything admitted may come to need, in multiples
            of the KV cache's capacity.
        request_log: File that gets one JSON line a request, `-` for standard output; None
            writes none.
        max_body_bytes: Largest request body.
        body_deadline_seconds: How long a client may take to send a body; then 408.
        write_deadline_seconds: How long a client may take next to nothing of its answer; then
            the call ends as if the client had left.
    """

    model_name: str
    drain_seconds: float = 300.0
    drain_grace_seconds: float = 5.0
    max_queued_requests: int = 1024
    max_queued_tokens: int = 1_000_000
    trust_tenant_header: bool = False
    max_queue_seconds: float | QueueRule | None = None
    max_projected_kv: float = 8.0
    request_log: str | None = None
    max_body_bytes: int = 8 * 1024 * 1024
    body_deadline_seconds: float = BODY_DEADLINE_S
    write_deadline_seconds: float = WRITE_DEADLINE_S
