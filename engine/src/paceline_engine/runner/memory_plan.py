"""How many KV blocks fit: pure arithmetic over the model's shape and the ceilings.

Everything an engine keeps is sized at start from the ceilings, so a live change of a knob
needs no more memory. The server process calls this before it starts the engine process and
refuses too little memory with the error's single line; the runner checks again before it
loads. Only the checkpoint's header is needed.

    model = read_model_config(path)                      # paceline_engine.weights
    plan = plan_memory(
        model,
        available_bytes=available_memory_bytes(),        # runner.memory_limit
        max_model_len=..., max_num_batched_tokens=..., max_num_seqs=..., block_size=...,
        num_kv_blocks=None,  # or blocks_in(kv_bytes, model, size)
    )
    plan.num_kv_blocks
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from paceline_engine.config import round_up
from paceline_engine.memory import MIB, SLACK_RATIO, MemoryPlan
from paceline_engine.runner.memory_room import (
    BLOCK_ACCOUNT_BYTES,
    QUEUED_TOKEN_BYTES,
    InsufficientMemoryError,
    Room,
    refusal,
)
from paceline_engine.weights.model_config import FP32_BYTES, ModelConfig

# Resident memory of the engine process before it holds a model: interpreter, torch and its
# libraries, and what loading leaves behind; measured with torch 2.15 (CUDA build).
RUNTIME_BYTES: Final = 620 * MIB

# The KV pool nobody asked a size for stays below this: a machine without a limit is not ours
# alone.
DEFAULT_KV_BYTES: Final = 4096 * MIB

# Rows of the vocabulary's width beside one for each running sequence: three slices of log
# probabilities, and what drawing from one row takes at its most (sorted, summed in fp64).
SCORED_ROWS: Final = 3 * 32
DRAWN_ROWS: Final = 16

# Below these a lower value is no remedy.
LEAST_MODEL_LEN: Final = 256
LEAST_BUDGET: Final = 32
_BUDGET_STEP: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ceilings:
    """What the plan is for; see `plan_memory`."""

    max_model_len: int
    max_num_batched_tokens: int
    max_num_seqs: int
    block_size: int
    num_kv_blocks: int | None
    max_queued_tokens: int

    @property
    def blocks_per_request(self) -> int:
        return round_up(self.max_model_len, self.block_size) // self.block_size

    @property
    def least_blocks(self) -> int:
        return self.num_kv_blocks or self.blocks_per_request


def blocks_in(kv_bytes: int, model: ModelConfig, block_size: int) -> int:
    """Whole KV blocks in `kv_bytes`."""
    return kv_bytes // (model.kv_bytes_per_token * block_size)


def activation_bytes(model: ModelConfig, max_num_batched_tokens: int) -> int:
    """Bytes of the largest step's hidden states.

    Per token the residual stream, its normalised copy and a projection's output (hidden),
    fused qkv, attention output, fused gate and up with their product.
    """
    per_token = 3 * model.hidden_size + model.qkv_size + model.q_size + 3 * model.intermediate_size
    return max_num_batched_tokens * per_token * FP32_BYTES


def logits_bytes(model: ModelConfig, max_num_seqs: int) -> int:
    """Bytes of the rows that tokens are drawn from and log probabilities are taken of."""
    rows = max_num_seqs + SCORED_ROWS + DRAWN_ROWS
    return (rows * model.vocab_size + max_num_seqs * model.hidden_size) * FP32_BYTES


def loading_bytes(model: ModelConfig) -> int:
    """Bytes of the largest matrix's short-lived forms while it is loaded.

    Dequantised and stacked before it is packed; a tied embedding is kept as it is.
    """
    table = model.vocab_size * model.hidden_size
    fused = 2 * model.intermediate_size * model.hidden_size
    return max(2 * fused, table if model.tied_embeddings else 2 * table) * FP32_BYTES


def plan_memory(  # noqa: PLR0913  (keywords only; each is one ceiling)
    model: ModelConfig,
    *,
    available_bytes: int,
    max_model_len: int,
    max_num_batched_tokens: int,
    max_num_seqs: int,
    block_size: int,
    num_kv_blocks: int | None = None,
    max_queued_tokens: int = 0,
    server_bytes: int = 0,
    is_runtime_loaded: bool = False,
) -> MemoryPlan:
    """Sizes the KV pool for the memory there is.

    Args:
        model: Shape of the model.
        available_bytes: Memory that all that is planned here may take.
        max_model_len: Longest request in tokens; a pool sized here holds at least one.
        max_num_batched_tokens: Ceiling of the step's token budget.
        max_num_seqs: Ceiling of running sequences.
        block_size: Tokens in a block.
        num_kv_blocks: A wanted pool size, taken as it is; None takes what fits, up to
            `DEFAULT_KV_BYTES` (or one longest request) and to what `max_num_seqs` requests of
            full length can use.
        max_queued_tokens: Prompt tokens that may wait.
        server_bytes: The server process's share.
        is_runtime_loaded: Whether the caller is the process that has loaded torch already.

    Raises:
        InsufficientMemoryError: The pool wanted, or one longest request, does not fit.
    """
    ceilings = _Ceilings(
        max_model_len=max_model_len,
        max_num_batched_tokens=max_num_batched_tokens,
        max_num_seqs=max_num_seqs,
        block_size=block_size,
        num_kv_blocks=num_kv_blocks,
        max_queued_tokens=max_queued_tokens,
    )
    room = Room(available_bytes=available_bytes, slack=0 if is_runtime_loaded else SLACK_RATIO)
    runtime_bytes = 0 if is_runtime_loaded else RUNTIME_BYTES

    def fixed(ceilings: _Ceilings) -> MemoryPlan:
        return _without_blocks(model, ceilings, runtime_bytes, server_bytes)

    def least(ceilings: _Ceilings) -> MemoryPlan:
        return _with_blocks(fixed(ceilings), ceilings.least_blocks, loading_bytes(model))

    def fits(ceilings: _Ceilings) -> bool:
        return least(ceilings).total_bytes <= room.allowed_bytes

    if not fits(ceilings):
        remedy = next(_remedies(ceilings, fixed(ceilings).block_bytes, fits), None)
        raise InsufficientMemoryError(refusal(least(ceilings), room, remedy))
    blocks = _chosen_blocks(ceilings, fixed(ceilings), room)
    return _with_blocks(fixed(ceilings), blocks, loading_bytes(model))


def _without_blocks(
    model: ModelConfig, ceilings: _Ceilings, runtime_bytes: int, server_bytes: int
) -> MemoryPlan:
    return MemoryPlan(
        runtime_bytes=runtime_bytes,
        weight_bytes=model.resident_weight_bytes,
        activation_bytes=activation_bytes(model, ceilings.max_num_batched_tokens),
        logits_bytes=logits_bytes(model, ceilings.max_num_seqs),
        buffer_bytes=ceilings.max_model_len * model.head_dim * FP32_BYTES,  # rotary tables
        queue_bytes=ceilings.max_queued_tokens * QUEUED_TOKEN_BYTES,
        server_bytes=server_bytes,
        block_bytes=model.kv_bytes_per_token * ceilings.block_size,
    )


def _with_blocks(plan: MemoryPlan, num_blocks: int, loading: int) -> MemoryPlan:
    """The plan with a KV pool; loading may use what a step and the pool take later."""
    accounts = num_blocks * BLOCK_ACCOUNT_BYTES
    later = plan.activation_bytes + plan.logits_bytes + num_blocks * plan.block_bytes
    buffers = plan.buffer_bytes + accounts + max(0, loading - later)
    return replace(plan, num_kv_blocks=num_blocks, buffer_bytes=buffers)


def _chosen_blocks(ceilings: _Ceilings, fixed: MemoryPlan, room: Room) -> int:
    if ceilings.num_kv_blocks:
        return ceilings.num_kv_blocks
    left = room.allowed_bytes - fixed.total_bytes
    per_request = ceilings.blocks_per_request
    return min(
        left // (fixed.block_bytes + BLOCK_ACCOUNT_BYTES),
        max(per_request, DEFAULT_KV_BYTES // fixed.block_bytes),
        ceilings.max_num_seqs * per_request,
    )


def _remedies(
    ceilings: _Ceilings, block_bytes: int, fits: Callable[[_Ceilings], bool]
) -> Iterator[str]:
    """Flags that make it fit when lowered alone, each to its largest value that does."""

    def largest(field: str, least: int, step: int) -> int | None:
        """The largest multiple of `step` below the present value that fits."""
        low, high = -(-least // step), (getattr(ceilings, field) - 1) // step
        found = None
        while low <= high:
            middle = (low + high) // 2
            if fits(replace(ceilings, **{field: middle * step})):
                found, low = middle * step, middle + 1
            else:
                high = middle - 1
        return found

    if ceilings.num_kv_blocks:
        blocks = largest("num_kv_blocks", ceilings.blocks_per_request, 1)
        if blocks:
            yield f"--kv-cache-memory to {blocks * block_bytes}"
    elif length := largest("max_model_len", LEAST_MODEL_LEN, ceilings.block_size):
        yield f"--max-model-len to {length}"
    if budget := largest("max_num_batched_tokens", LEAST_BUDGET, _BUDGET_STEP):
        yield f"--max-num-batched-tokens to {budget}"
    if sequences := largest("max_num_seqs", 1, 1):
        yield f"--max-num-seqs to {sequences}"
    if queued := largest("max_queued_tokens", ceilings.max_model_len, 1000):
        yield f"--max-queued-tokens to {queued}"
