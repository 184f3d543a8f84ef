"""Every flag of `paceline-engine serve`, once.

Standard library only: the operator's renderer is compared with it in `tests/contract`.
`flag_table` gives each its type, default and help.
"""

from __future__ import annotations

from enum import StrEnum

COMMAND = "paceline-engine"
SUBCOMMAND = "serve"
TUNABLES_FILE = "tunables.json"
"""Key of the ConfigMap `<name>-tunables`; its value is the JSON body of a tunables PUT."""
EXIT_BAD_START = 2
"""Exit code where the flags, the model, the memory or a port make a start impossible."""


class Flag(StrEnum):
    """Command-line flags."""

    TUNE_FOR = "--tune-for"
    MODEL = "--model"
    SERVED_NAME = "--served-name"
    DEVICE = "--device"
    PROFILE = "--profile"
    STEP_COEFFICIENTS = "--step-coefficients"
    LOAD_SECONDS = "--load-seconds"
    MAX_MODEL_LEN = "--max-model-len"
    MAX_NUM_BATCHED_TOKENS = "--max-num-batched-tokens"
    MAX_NUM_SEQS = "--max-num-seqs"
    INITIAL_BATCHED_TOKENS = "--initial-batched-tokens"
    INITIAL_RUNNING_SEQS = "--initial-running-seqs"
    BLOCK_SIZE = "--block-size"
    KV_CACHE_MEMORY = "--kv-cache-memory"
    PREFIX_CACHING = "--prefix-caching"
    PREFIX_CACHE_RETENTION_SECONDS = "--prefix-cache-retention-seconds"
    BATCH_WEIGHT = "--batch-weight"
    INTERACTIVE_MAX_WAIT_SECONDS = "--interactive-max-wait-seconds"
    BATCH_MAX_WAIT_SECONDS = "--batch-max-wait-seconds"
    TENANT_WEIGHTS = "--tenant-weights"
    TRUST_TENANT_HEADER = "--trust-tenant-header"
    THREADS = "--threads"
    HOST = "--host"
    PORT = "--port"
    HEALTH_PORT = "--health-port"
    ADMIN_PORT = "--admin-port"
    API_KEY_FILE = "--api-key-file"
    ADMIN_TOKEN_FILE = "--admin-token-file"  # noqa: S105  (a flag, not a token)
    TUNABLES_DIR = "--tunables-dir"
    DRAIN_SECONDS = "--drain-seconds"
    DRAIN_GRACE_SECONDS = "--drain-grace-seconds"
    MAX_QUEUED_REQUESTS = "--max-queued-requests"
    MAX_QUEUED_TOKENS = "--max-queued-tokens"
    MAX_QUEUE_SECONDS = "--max-queue-seconds"
    MAX_PROJECTED_KV = "--max-projected-kv"
    MAX_BODY_BYTES = "--max-body-bytes"
    REQUEST_LOG = "--request-log"
    LOG_LEVEL = "--log-level"


class AdminPath(StrEnum):
    """Routes of the admin port."""

    TUNABLES = "/admin/tunables"
    DRAIN = "/admin/drain"
    CACHE = "/admin/cache"
    MEMORY = "/admin/memory"


class HealthPath(StrEnum):
    """Routes of the health port."""

    LIVE = "/healthz"
    READY = "/readyz"
    METRICS = "/metrics"
