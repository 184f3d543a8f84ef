"""What engines offer: command, flags, ports, paths, as `tests/contract` compares them.

The engine declares the same on its side; neither member imports the other.
"""

from __future__ import annotations

from enum import StrEnum

COMMAND = "paceline-engine"
SUBCOMMAND = "serve"
API_PORT = 8000
HEALTH_PORT = 8001
ADMIN_PORT = 8002
TUNABLES_FILE = "tunables.json"


class Flag(StrEnum):
    """Flags of the engine that rendering sets."""

    MODEL = "--model"
    SERVED_NAME = "--served-name"
    DEVICE = "--device"
    PROFILE = "--profile"
    LOAD_SECONDS = "--load-seconds"
    MAX_MODEL_LEN = "--max-model-len"
    MAX_NUM_BATCHED_TOKENS = "--max-num-batched-tokens"
    MAX_NUM_SEQS = "--max-num-seqs"
    BLOCK_SIZE = "--block-size"
    KV_CACHE_MEMORY = "--kv-cache-memory"
    PREFIX_CACHING = "--prefix-caching"
    THREADS = "--threads"
    ADMIN_TOKEN_FILE = "--admin-token-file"  # noqa: S105 - a flag
    TUNABLES_DIR = "--tunables-dir"
    DRAIN_SECONDS = "--drain-seconds"
    DRAIN_GRACE_SECONDS = "--drain-grace-seconds"
    MAX_QUEUE_SECONDS = "--max-queue-seconds"


BY_OBJECTIVES = "slo"
"""Value of `MAX_QUEUE_SECONDS`: the TTFT objectives in force say it, any wait where none is."""


class AdminPath(StrEnum):
    """Routes of the admin port."""

    TUNABLES = "/admin/tunables"
    DRAIN = "/admin/drain"
    CACHE = "/admin/cache"


class HealthPath(StrEnum):
    """Routes of the health port."""

    LIVE = "/healthz"
    READY = "/readyz"
    METRICS = "/metrics"


DRAIN_GRACE_SECONDS = 5
"""From readiness false to refusing new requests: time for every router to notice."""
STOP_MARGIN_SECONDS = 10
"""What a pod may take beyond grace and drain before it is killed."""
