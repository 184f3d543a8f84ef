"""Names, types and labels of what engines report on `/metrics`, as the operator reads them.

Standard library only: `tests/contract` compares this table with the engine's.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

PREFIX = "paceline_engine_"


class Kind(StrEnum):
    """Prometheus type of a family."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family; `name` is without prefix, with `_total` where a counter."""

    name: str
    kind: Kind
    labels: tuple[str, ...] = ("model_name",)

    @property
    def full_name(self) -> str:
        """Name as scraped (histograms add `_bucket`, `_sum`, `_count`)."""
        return PREFIX + self.name


MODEL = ("model_name",)
TIERED = ("model_name", "tier")

REQUESTS_RUNNING = Family("requests_running", Kind.GAUGE, TIERED)
REQUESTS_WAITING = Family("requests_waiting", Kind.GAUGE, TIERED)
WAITING_TOKENS = Family("waiting_tokens", Kind.GAUGE, TIERED)
REQUESTS_RECEIVED = Family("requests_received_total", Kind.COUNTER, TIERED)
PROMPT_TOKENS_RECEIVED = Family("prompt_tokens_received_total", Kind.COUNTER, TIERED)
REQUESTS = Family("requests_total", Kind.COUNTER, (*TIERED, "outcome"))
REJECTED = Family("rejected_total", Kind.COUNTER, (*TIERED, "reason"))
TTFT = Family("time_to_first_token_seconds", Kind.HISTOGRAM, TIERED)
ITL = Family("inter_token_latency_seconds", Kind.HISTOGRAM, TIERED)
TPOT = Family("request_time_per_output_token_seconds", Kind.HISTOGRAM, TIERED)
QUEUE = Family("request_queue_seconds", Kind.HISTOGRAM, TIERED)
DURATION = Family("request_duration_seconds", Kind.HISTOGRAM, TIERED)
PROMPT_TOKENS_HIST = Family("request_prompt_tokens", Kind.HISTOGRAM, TIERED)
GENERATION_TOKENS_HIST = Family("request_generation_tokens", Kind.HISTOGRAM, TIERED)
SLO_SAMPLES = Family(
    "slo_samples_total", Kind.COUNTER, (*TIERED, "slo", "metric", "target_ms", "outcome")
)
GOODPUT = Family("goodput_requests_total", Kind.COUNTER, (*TIERED, "outcome"))
STEP_DURATION = Family("step_duration_seconds", Kind.HISTOGRAM)
STEP_MOMENTS = Family("step_moments_total", Kind.COUNTER, (*MODEL, "class", "term"))
STEPS_AT_BUDGET = Family("steps_at_budget_total", Kind.COUNTER)
KV_USAGE = Family("kv_cache_usage_ratio", Kind.GAUGE)
KV_BLOCKS = Family("kv_cache_blocks", Kind.GAUGE, (*MODEL, "state"))
PROMPT_TOKENS = Family("prompt_tokens_total", Kind.COUNTER)
GENERATION_TOKENS = Family("generation_tokens_total", Kind.COUNTER)
PREFIX_QUERIES = Family("prefix_cache_queries_tokens_total", Kind.COUNTER)
PREFIX_HITS = Family("prefix_cache_hits_tokens_total", Kind.COUNTER)
PREEMPTIONS = Family("preemptions_total", Kind.COUNTER)
MAX_BATCHED_TOKENS = Family("max_num_batched_tokens", Kind.GAUGE)
MAX_RUNNING_SEQS = Family("max_num_running_seqs", Kind.GAUGE)
TUNABLES_REVISION = Family("tunables_revision", Kind.GAUGE)
BUSY_SECONDS = Family("busy_seconds_total", Kind.COUNTER)
CACHE_CONFIG = Family("cache_config_info", Kind.GAUGE, (*MODEL, "block_size", "num_gpu_blocks"))
MEMORY_HEADROOM = Family("memory_headroom_bytes", Kind.GAUGE)
MEMORY_LIMIT = Family("memory_limit_bytes", Kind.GAUGE)
MEMORY_PLANNED = Family("memory_planned_bytes", Kind.GAUGE, (*MODEL, "part"))
MEMORY_RESIDENT = Family("memory_resident_bytes", Kind.GAUGE, (*MODEL, "process"))
CONNECTIONS_REFUSED = Family("connections_refused_total", Kind.COUNTER)
START_TIME = Family("process_start_time_seconds", Kind.GAUGE)

OVERLOAD_REASONS = frozenset({"queued_requests", "queued_tokens", "projected_kv", "queue_delay"})
"""Reasons of `rejected_total` for which a request is lost that the service should have served: not
the caller's own mistakes, nor what another replica serves."""

FAMILIES = tuple(value for value in tuple(globals().values()) if isinstance(value, Family))
