"""What one replica carries within its objectives.

Decoding sequences follow from Little's law, prompts queue for what the budget leaves of a
step, and the tail of that wait is taken as exponential (M/G/1 in heavy traffic).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil, log, sqrt

from paceline_operator.autopilot.plant.plant import Plant

OVERHEAD_MS = 15.0
MOST_BUSY = 0.85
MOST_KV = 0.90
TTFT_SHARE = 0.90
_ROUNDS = 12
_LEAST_STEP_MS = 1e-3
_SETTLED_ROWS = 1e-3
_CLOSE = 1e-3
_LEAST_RPS = 1e-4
_MOST_RPS = 1e4


class Bound(StrEnum):
    """What ends a replica's capacity."""

    TTFT = "ttft"
    ITL = "itl"
    PREFILL = "prefill"
    SEQUENCES = "sequences"
    KV = "kv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Under which conditions a replica works.

    Attributes:
        budget: Token budget.
        running_seqs: Cap of running sequences.
        ttft_ms: Target, None for none.
        ttft_share: Share of first tokens that must hold it, 0..1.
        itl_ms: Target, None for none.
        margin: Share of the ITL target to keep free.
        kv_capacity_tokens: Tokens of the KV pool, None for unknown.
    """

    budget: int
    running_seqs: int
    ttft_ms: float | None = None
    ttft_share: float = 0.95
    itl_ms: float | None = None
    margin: float = 0.0
    kv_capacity_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Steady state of a replica at some rate.

    Attributes:
        rows: Mean decoding sequences.
        busy: Share of time in steps that carry prompt tokens.
        full_ms: A step that uses the whole budget.
        decode_ms: A step that only decodes.
        prefill_tokens_per_ms: Prompt tokens computed while such steps run.
        ttft_ms: Predicted, at the share of the terms.
    """

    rows: float
    busy: float
    full_ms: float
    decode_ms: float
    prefill_tokens_per_ms: float
    ttft_ms: float


def steady_state(plant: Plant, terms: Terms, rps: float) -> State:
    """The state in which a replica settles at `rps` requests per second."""
    work = plant.workload
    per_ms = rps / 1e3
    rows, busy, full_ms, decode_ms, speed = 0.0, 0.0, 0.0, 0.0, 0.0
    for _ in range(_ROUNDS):
        room = max(1.0, terms.budget - rows)
        # A law of few steps may say that some take no time at all.
        full_ms = max(_LEAST_STEP_MS, plant.full_ms(terms.budget, rows))
        decode_ms = max(_LEAST_STEP_MS, plant.decode_ms(max(1.0, rows)))
        speed = room / full_ms
        busy = per_ms * work.prompt_mean * work.computed_share / speed
        mixed = min(1.0, busy)
        gap_ms = 1.0 / (mixed / full_ms + (1.0 - mixed) / decode_ms)
        before, rows = rows, min(float(terms.running_seqs), per_ms * work.output_mean * gap_ms)
        if abs(rows - before) < _SETTLED_ROWS:
            break
    ttft_ms = _ttft_ms(plant, terms, rows, busy, speed)
    return State(
        rows=rows, busy=busy, full_ms=full_ms, decode_ms=decode_ms,
        prefill_tokens_per_ms=speed, ttft_ms=ttft_ms,
    )  # fmt: skip


def bound(plant: Plant, terms: Terms, state: State) -> Bound | None:
    """What a replica in this state breaks first, None for nothing."""
    work = plant.workload
    tokens = state.rows * (work.prompt_mean + work.output_mean)
    limits = (
        (Bound.PREFILL, state.busy, MOST_BUSY),
        (Bound.SEQUENCES, state.rows + sqrt(state.rows), float(terms.running_seqs)),
        (Bound.KV, tokens, _limit(terms.kv_capacity_tokens, MOST_KV)),
        (Bound.ITL, state.decode_ms, itl_limit_ms(plant, terms)),
        (Bound.TTFT, state.ttft_ms, _ttft_limit(plant, terms)),
    )
    return next((kind for kind, value, limit in limits if value > limit), None)


def _limit(value: float | None, share: float) -> float:
    return share * value if value else float("inf")


def itl_limit_ms(plant: Plant, terms: Terms) -> float:
    """Longest decode-only step; the reserve shrinks where one sequence alone would break it."""
    if not terms.itl_ms:
        return float("inf")
    middle_ms = (plant.decode_ms(1.0) + terms.itl_ms) / 2
    return max((1 - terms.margin) * terms.itl_ms, min(terms.itl_ms, middle_ms))


def _ttft_limit(plant: Plant, terms: Terms) -> float:
    """Keeps a reserve, but never so much that nothing fits where an idle replica holds it."""
    if not terms.ttft_ms:
        return float("inf")
    alone_ms = alone_ttft_ms(plant, terms)
    return max(TTFT_SHARE * terms.ttft_ms, min(terms.ttft_ms, (alone_ms + terms.ttft_ms) / 2))


def attainable(plant: Plant, terms: Terms) -> Terms:
    """The terms without objectives that even an idle replica misses: none can be sized for."""
    itl_ms, ttft_ms = terms.itl_ms, terms.ttft_ms
    if itl_ms and plant.decode_ms(1.0) > itl_ms:
        itl_ms = None
    if ttft_ms and alone_ttft_ms(plant, terms) > ttft_ms:
        ttft_ms = None
    return replace(terms, itl_ms=itl_ms, ttft_ms=ttft_ms)


def capacity_rps(plant: Plant, terms: Terms) -> tuple[float, Bound | None]:
    """Most requests per second of one replica within everything, and what ends it there."""
    low, high = 0.0, 1.0
    while high < _MOST_RPS and bound(plant, terms, steady_state(plant, terms, high)) is None:
        low, high = high, 2 * high
    limit: Bound | None = None
    while high - low > max(_LEAST_RPS, _CLOSE * high):
        middle = (low + high) / 2
        broken = bound(plant, terms, steady_state(plant, terms, middle))
        if broken is None:
            low = middle
        else:
            high, limit = middle, broken
    return low, limit


def alone_ttft_ms(plant: Plant, terms: Terms) -> float:
    """First token of the longest prompt that has to be in time, where nothing waits.

    The one measure of whether a TTFT target can be met at all, here and for the status.
    """
    work = plant.workload
    tokens = work.prompt_at(terms.ttft_share) * work.computed_share
    return around_ms(plant) + _service_ms(plant, terms, 0.0, tokens)


def alone_e2e_ms(plant: Plant) -> float:
    """A mean answer where nothing waits: one step a token, and what is around its prompt."""
    return around_ms(plant) + plant.workload.output_mean * plant.decode_ms(1.0)


def around_ms(plant: Plant) -> float:
    """What a first token takes besides its own steps: the running step ends first."""
    return OVERHEAD_MS + plant.decode_ms(1.0)


def _service_ms(plant: Plant, terms: Terms, rows: float, tokens: float) -> float:
    """Steps one prompt takes, the last one partly filled."""
    room = max(1.0, terms.budget - rows)
    steps = max(1, ceil(tokens / room))
    last = tokens - (steps - 1) * room
    return (steps - 1) * plant.full_ms(terms.budget, rows) + plant.full_ms(rows + last, rows)


def _ttft_ms(plant: Plant, terms: Terms, rows: float, busy: float, speed: float) -> float:
    if busy >= 1.0:
        return float("inf")
    work = plant.workload
    mean_ms = work.prompt_mean * work.computed_share / speed
    decay_ms = mean_ms * (1.0 + work.prompt_cv2) / 2 / (1.0 - busy)

    def wait_ms(share: float) -> float:
        return decay_ms * log(busy / share) if busy > share else 0.0

    short = _service_ms(plant, terms, rows, work.prompt_p50 * work.computed_share)
    long = _service_ms(plant, terms, rows, work.prompt_at(terms.ttft_share) * work.computed_share)
    late = 1.0 - terms.ttft_share
    # Whoever arrives waits for the running step to end first.
    started_ms = plant.decode_ms(max(1.0, rows))
    return OVERHEAD_MS + started_ms + max(wait_ms(late) + short, wait_ms(max(0.5, late)) + long)
