"""What the server needs to know at start, apart from the engine's own configuration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from paceline_engine.config import ADMIN_PORT, API_PORT, HEALTH_PORT


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Settings of the server process.

    Attributes:
        model_name: Name clients use, and the `model_name` label.
        model_path: Where the tokenizer is read from; None is the byte vocabulary.
        host: Address of the API and health ports; the admin port uses it only with a token.
        port: API port; 0 takes a free one, as for the two below.
        health_port: Health and metrics port.
        admin_port: Admin port.
        api_key_file: One key a line; None leaves the API open.
        admin_token_file: Token of the admin port; None binds it to loopback without one.
        tunables_dir: Directory with start values of the live knobs.
        drain_seconds: How long running requests may take after SIGTERM.
        drain_grace_seconds: How long a draining server still accepts.
        max_queued_requests: Requests that may wait for their first token.
        max_queued_tokens: Prompt tokens of those requests.
        max_body_bytes: Largest request body.
    """

    model_name: str
    model_path: str | None
    host: str = "0.0.0.0"  # noqa: S104 (a server is meant to be reached)
    port: int = API_PORT
    health_port: int = HEALTH_PORT
    admin_port: int = ADMIN_PORT
    api_key_file: Path | None = None
    admin_token_file: Path | None = None
    tunables_dir: Path | None = None
    drain_seconds: float = 300.0
    drain_grace_seconds: float = 5.0
    max_queued_requests: int = 1024
    max_queued_tokens: int = 1_000_000
    max_body_bytes: int = 8 * 1024 * 1024
