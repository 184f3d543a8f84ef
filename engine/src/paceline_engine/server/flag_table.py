"""Type, default and help of every flag, in the groups of `--help`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from paceline_engine.config import ADMIN_PORT, API_PORT, HEALTH_PORT, Device
from paceline_engine.server.flag_values import (
    LOG_LEVELS,
    block_size,
    byte_size,
    count,
    device,
    one_of,
    queue_seconds,
    ratio,
    seconds,
    seconds_or,
    switch,
    tune_for,
    weights,
)
from paceline_engine.server.flags import Flag
from paceline_engine.server.presets import TuneFor, described


class Row(NamedTuple):
    """One flag; `shown` names its value in the help."""

    flag: Flag
    kind: Callable[[str], Any]
    default: Any
    help: str
    shown: str = "N"


_port = count(0, 65_535)

_MODEL = (
    Row(
        Flag.TUNE_FOR,
        tune_for,
        None,
        "preset of flags, each used only where you do not give it; "
        + "; ".join(f"{preset}: {described(preset)}" for preset in TuneFor),
        "|".join(TuneFor),
    ),
    Row(
        Flag.MODEL, str, None, "GGUF file or Hugging Face directory; optional if simulated", "PATH"
    ),
    Row(Flag.SERVED_NAME, str, None, "name that clients use (default: from the path)", "TEXT"),
    Row(Flag.DEVICE, device, Device.AUTO, "auto, cpu, cuda or simulated (default: auto)", "DEVICE"),
    Row(Flag.PROFILE, str, None, "simulated: named step-time law", "TEXT"),
    Row(
        Flag.STEP_COEFFICIENTS,
        str,
        None,
        "simulated: law as base_ms=9.8,per_token_ms=0.05[,per_kv_token_ms=..,floor_ms=..,"
        "floor_per_token_ms=..]",
        "TEXT",
    ),
    Row(Flag.LOAD_SECONDS, seconds, 0.0, "simulated: pretended load time (default: 0)", "SECONDS"),
    Row(Flag.THREADS, count(1, 1024), None, "compute threads (default: usable CPUs)"),
)

_CAPACITY = (
    Row(Flag.MAX_MODEL_LEN, count(2), None, "prompt plus output tokens of one request"),
    Row(
        Flag.MAX_NUM_BATCHED_TOKENS,
        count(1),
        None,
        "ceiling of tokens in one step (default: 2048 simulated, 512 on CPU)",
    ),
    Row(Flag.MAX_NUM_SEQS, count(1), 64, "ceiling of running sequences (default: 64)"),
    Row(Flag.BLOCK_SIZE, block_size, 16, "tokens in a KV block: 8, 16, 32 or more (default: 16)"),
    Row(
        Flag.KV_CACHE_MEMORY,
        byte_size,
        None,
        "memory of the KV cache (default: what fits)",
        "BYTES",
    ),
)

_CACHE = (
    Row(
        Flag.PREFIX_CACHING,
        switch,
        default=True,
        help="keep computed blocks for prompts that begin alike (default: on)",
        shown="on|off",
    ),
    Row(
        Flag.PREFIX_CACHE_RETENTION_SECONDS,
        seconds_or("keep"),
        None,
        "drop blocks unused for so long, or keep until their place is needed (default: keep)",
        "SECONDS",
    ),
)

_SHARES = (
    Row(
        Flag.BATCH_WEIGHT,
        ratio(0.01, 100),
        0.1,
        "tokens of the batch tier for each interactive one while both wait (default: 0.1)",
        "WEIGHT",
    ),
    Row(
        Flag.INTERACTIVE_MAX_WAIT_SECONDS,
        seconds,
        10.0,
        "wait after which none of its tier overtakes an interactive request (default: 10)",
        "SECONDS",
    ),
    Row(
        Flag.BATCH_MAX_WAIT_SECONDS,
        seconds,
        900.0,
        "the same for a batch request (default: 900)",
        "SECONDS",
    ),
    Row(
        Flag.TENANT_WEIGHTS,
        weights,
        (),
        "share of tokens inside a tier, as name=2,other=0.5 (default: 1 each)",
        "NAME=WEIGHT,..",
    ),
    Row(
        Flag.TRUST_TENANT_HEADER,
        switch,
        default=False,
        help="take the tenant from X-Paceline-Tenant; only behind a gateway that sets it "
        "(default: off)",
        shown="on|off",
    ),
)

_LIVE = (
    Row(Flag.INITIAL_BATCHED_TOKENS, count(1), None, "token budget (default: the ceiling)"),
    Row(Flag.INITIAL_RUNNING_SEQS, count(1), None, "running cap (default: the ceiling)"),
    Row(Flag.TUNABLES_DIR, Path, None, "directory whose tunables.json overrides both", "PATH"),
)

_PORTS = (
    Row(Flag.HOST, str, "0.0.0.0", "address to listen on (default: all)", "TEXT"),  # noqa: S104 a server
    Row(Flag.PORT, _port, API_PORT, f"OpenAI API (default: {API_PORT}; 0: any free port)"),
    Row(Flag.HEALTH_PORT, _port, HEALTH_PORT, f"health, metrics (default: {HEALTH_PORT})"),
    Row(Flag.ADMIN_PORT, _port, ADMIN_PORT, f"admin (default: {ADMIN_PORT})"),
    Row(Flag.API_KEY_FILE, Path, None, "file with API keys, one a line (default: open)", "PATH"),
    Row(
        Flag.ADMIN_TOKEN_FILE,
        Path,
        None,
        "file with the admin port's bearer token (default: none, and loopback only)",
        "PATH",
    ),
)

_LIMITS = (
    Row(Flag.DRAIN_SECONDS, seconds, 300.0, "for running requests after the grace", "SECONDS"),
    Row(Flag.DRAIN_GRACE_SECONDS, seconds, 5.0, "unready but accepting (default: 5)", "SECONDS"),
    Row(Flag.MAX_QUEUED_REQUESTS, count(1), 1024, "requests without a first token (default: 1024)"),
    Row(Flag.MAX_QUEUED_TOKENS, count(1), 1_000_000, "prompt tokens of those (default: 1000000)"),
    Row(
        Flag.MAX_QUEUE_SECONDS,
        queue_seconds,
        None,
        "longest expected wait for a first token before 429, or slo: as long as the objectives "
        "allow (default: off)",
        "SECONDS",
    ),
    Row(
        Flag.MAX_PROJECTED_KV,
        ratio(1, 1e6),
        8.0,
        "KV that all admitted may come to need, times the KV cache (default: 8)",
        "RATIO",
    ),
    Row(
        Flag.MAX_BODY_BYTES,
        byte_size,
        8 * 1024 * 1024,
        "largest request body (default: 8Mi)",
        "BYTES",
    ),
    Row(
        Flag.REQUEST_LOG,
        str,
        None,
        "file for one JSON line a request, - for standard output (default: none)",
        "PATH|-",
    ),
    Row(
        Flag.LOG_LEVEL,
        one_of(*LOG_LEVELS),
        "info",
        f"{', '.join(LOG_LEVELS)} (default: info)",
        "LEVEL",
    ),
)

GROUPS: Final[dict[str, tuple[Row, ...]]] = {
    "model and device": _MODEL,
    "capacity, fixed at start": _CAPACITY,
    "prefix cache": _CACHE,
    "shares between tiers and tenants": _SHARES,
    "live knobs at start": _LIVE,
    "ports and access": _PORTS,
    "limits and drain": _LIMITS,
}
