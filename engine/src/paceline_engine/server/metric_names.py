"""Names, labels, histogram edges and moment terms of everything on `/metrics`.

Standard library only: `tests/contract` compares this table with the operator's. The
families themselves are built in `metric_families`, `loop_metrics` and `slo`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations_with_replacement

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
    help: str
    labels: tuple[str, ...] = ("model_name",)
    buckets: tuple[float, ...] = ()

    @property
    def full_name(self) -> str:
        """Name as scraped (histograms add `_bucket`, `_sum`, `_count`)."""
        return PREFIX + self.name


MODEL = ("model_name",)
TIERED = ("model_name", "tier")

# vLLM's edges plus finer low ones, in seconds.
TTFT_EDGES = (
    0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4,
    0.5, 0.6, 0.75, 1.0, 1.5, 2.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
ITL_EDGES = (
    0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.075, 0.1,
    0.125, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
QUEUE_EDGES = (
    0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0,
    15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0,
)  # fmt: skip
DURATION_EDGES = (
    0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0,
    40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0,
)  # fmt: skip
STEP_EDGES = (
    0.001, 0.002, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2,
    0.3, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
TOKEN_EDGES = (
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0,
    20000.0, 50000.0, 100000.0,
)  # fmt: skip

# One letter per variable of the step-time law, in this order.
MOMENT_VARIABLES = {
    "p": "prefill tokens of the step",
    "d": "decode rows of the step",
    "k": "resident KV tokens the step reads",
    "x": "sum over prefill chunks of chunk length x context at its end",
    "t": "step time in seconds",
}
STEP_CLASSES = ("decode_only", "mixed", "prefill_only")


def moment_terms() -> tuple[str, ...]:
    """Names of the moment terms: `n` (steps), each variable's sum, each product's sum.

    `n p d k x t pp pd pk px pt dd dk dx dt kk kx kt xx xt tt`; a product is named by its two
    letters in the order of `MOMENT_VARIABLES`.
    """
    letters = tuple(MOMENT_VARIABLES)
    products = ("".join(pair) for pair in combinations_with_replacement(letters, 2))
    return ("n", *letters, *products)


MOMENT_TERMS = moment_terms()

OUTCOMES = ("stop", "length", "abort", "gone", "invalid", "error")  # requests_total
OVERLOAD_REASONS = ("queued_requests", "queued_tokens", "projected_kv", "queue_delay")
BODIES = "bodies"
REDIRECT_REASONS = ("draining", "not_ready", BODIES)
NEVER_FITS = "never_fits"
REJECTION_REASONS = (*OVERLOAD_REASONS, *REDIRECT_REASONS, NEVER_FITS)
UNREAD = "unread"  # tier of what was turned away before its body was read
SLO_OUTCOMES = ("good", "bad")  # slo_samples_total, goodput_requests_total
KV_STATES = ("free", "held", "cached")


def _gauge(name: str, text: str, labels: tuple[str, ...] = MODEL) -> Family:
    return Family(name, Kind.GAUGE, text, labels)


def _counter(name: str, text: str, labels: tuple[str, ...] = MODEL) -> Family:
    return Family(name, Kind.COUNTER, text, labels)


def _histogram(
    name: str, text: str, buckets: tuple[float, ...], labels: tuple[str, ...] = TIERED
) -> Family:
    return Family(name, Kind.HISTOGRAM, text, labels, buckets)


REQUESTS_RUNNING = _gauge("requests_running", "Requests with KV blocks in the batch.", TIERED)
REQUESTS_WAITING = _gauge("requests_waiting", "Requests admitted and not yet running.", TIERED)
WAITING_TOKENS = _gauge("waiting_tokens", "Tokens still to prefill of waiting requests.", TIERED)
REQUESTS_RECEIVED = _counter(
    "requests_received_total",
    "Offered load: valid requests, admitted or refused with 429. One for each choice of each "
    "prompt, as in every family about requests.",
    TIERED,
)
PROMPT_TOKENS_RECEIVED = _counter(
    "prompt_tokens_received_total",
    "Their prompt tokens, once per prompt; the mean so far where one was refused unread.",
    TIERED,
)
REQUESTS = _counter(
    "requests_total",
    "Admitted requests ended, by outcome: stop, length, abort (the client left during the "
    "answer), gone (it left before the first token), invalid (its own settings left no token to "
    "draw), error.",
    ("model_name", "tier", "outcome"),
)
REJECTED = _counter(
    "rejected_total",
    "Requests refused, by reason. Those answered with 503 (not_ready, draining) are counted "
    "here alone, neither as received nor as samples: another replica serves them. Where that "
    "was before the body was read, tier is unread. never_fits are calls larger than the limits "
    "ever allow (400), no load either; other mistakes of callers are counted nowhere.",
    ("model_name", "tier", "reason"),
)
CONNECTIONS_REFUSED = _counter(
    "connections_refused_total",
    "Connections answered with 503 as soon as they came, as their port had the most it may have.",
)
TTFT = _histogram(
    "time_to_first_token_seconds",
    "First byte of the request to first token written; once per request, preempted or not.",
    TTFT_EDGES,
)
ITL = _histogram(
    "inter_token_latency_seconds",
    "Gaps between emissions of one request: one less than it has emissions.",
    ITL_EDGES,
)
TPOT = _histogram(
    "request_time_per_output_token_seconds",
    "Mean time per output token after the first, of a completed request.",
    ITL_EDGES,
)
QUEUE = _histogram(
    "request_queue_seconds",
    "Handed to the engine, read and admitted, to the first step of it.",
    QUEUE_EDGES,
)
DURATION = _histogram(
    "request_duration_seconds", "First byte to last token of a completed request.", DURATION_EDGES
)
PROMPT_TOKENS_HIST = _histogram(
    "request_prompt_tokens", "Tokens of an admitted prompt, once whatever its choices.", TOKEN_EDGES
)
GENERATION_TOKENS_HIST = _histogram(
    "request_generation_tokens", "Output tokens of a completed request.", TOKEN_EDGES
)
SLO_SAMPLES = _counter(
    "slo_samples_total",
    "Samples per pushed objective, of requests of its tier; bad at the moment one becomes late.",
    ("model_name", "tier", "slo", "metric", "target_ms", "outcome"),
)
GOODPUT = _counter(
    "goodput_requests_total",
    "Requests that met every pushed TTFT and ITL objective of their tier, and those that did not.",
    ("model_name", "tier", "outcome"),
)
STEP_DURATION = _histogram("step_duration_seconds", "Time of one step.", STEP_EDGES, MODEL)
STEP_MOMENTS = _counter(
    "step_moments_total",
    "Sums and cross products over steps: n, p, d, k, x, t, pp ... tt.",
    ("model_name", "class", "term"),
)
STEPS_AT_BUDGET = _counter("steps_at_budget_total", "Steps that used the whole token budget.")
KV_USAGE = _gauge("kv_cache_usage_ratio", "KV blocks held by requests over all, 0 to 1.")
KV_BLOCKS = _gauge("kv_cache_blocks", "KV blocks by state.", ("model_name", "state"))
PROMPT_TOKENS = _counter("prompt_tokens_total", "Tokens of prompts that got a first token.")
GENERATION_TOKENS = _counter("generation_tokens_total", "Output tokens given to requests.")
PREFIX_QUERIES = _counter(
    "prefix_cache_queries_tokens_total",
    "Tokens looked up for a prefix when requests were first admitted.",
)
PREFIX_HITS = _counter("prefix_cache_hits_tokens_total", "Of those, tokens found in the cache.")
PREEMPTIONS = _counter("preemptions_total", "Requests put back to be recomputed.")
MAX_BATCHED_TOKENS = _gauge("max_num_batched_tokens", "Step token budget in force.")
MAX_RUNNING_SEQS = _gauge("max_num_running_seqs", "Running-sequence cap in force.")
TUNABLES_REVISION = _gauge("tunables_revision", "Revision of the tunables in force.")
BUSY_SECONDS = _counter("busy_seconds_total", "Time the engine spent in steps.")
CACHE_CONFIG = _gauge(
    "cache_config_info",
    "Shape of the KV cache; always 1.",
    ("model_name", "block_size", "num_gpu_blocks"),
)
MEMORY_HEADROOM = _gauge(
    "memory_headroom_bytes",
    "Memory left to the limit once all that is planned is in use; negative: it will not do.",
)
MEMORY_LIMIT = _gauge("memory_limit_bytes", "Memory that server and engine could have at start.")
MEMORY_PLANNED = _gauge(
    "memory_planned_bytes", "Memory planned before loading, by part.", ("model_name", "part")
)
MEMORY_RESIDENT = _gauge(
    "memory_resident_bytes", "Resident memory now, by process.", ("model_name", "process")
)
START_TIME = _gauge("process_start_time_seconds", "Start of the server process, Unix time.")

FAMILIES = tuple(value for value in tuple(globals().values()) if isinstance(value, Family))
