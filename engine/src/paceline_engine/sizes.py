"""Longest request, KV blocks and memory plan of an engine, before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paceline_engine.config import round_up
from paceline_engine.memory import MIB, MemoryLimit, MemoryPlan, PlannedMemory
from paceline_engine.runner.memory_limit import nearest_limit
from paceline_engine.runner.memory_room import (
    QUEUED_BYTE_BYTES,
    QUEUED_TOKEN_BYTES,
    InsufficientMemoryError,
    plan_simulated,
)
from paceline_engine.server.body_room import planned_bytes
from paceline_engine.server.flags import Flag
from paceline_engine.server.memory_watch import resident_bytes
from paceline_engine.server.options import ServeOptions
from paceline_engine.start_error import StartError
from paceline_engine.step_law import profile

if TYPE_CHECKING:
    from paceline_engine.weights import ModelConfig

SIMULATED_MODEL_LEN: Final = 8192
SIMULATED_KV_BYTES_PER_TOKEN: Final = 128 * 1024  # Llama-3-8B in 16 bit

# What the server process takes beyond its start and bodies: connections, buffers, windows.
SERVER_GROWTH_BYTES: Final = 32 * MIB

# An answer of a chat with as many log-probabilities as may be, measured: 117 MB.
SCORED_ANSWER_BYTES: Final = 128 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What is allocated at start.

    Attributes:
        max_model_len: Prompt plus output tokens of one request at most.
        memory: The plan, and the limit it was held against.
    """

    max_model_len: int
    memory: PlannedMemory

    @property
    def num_kv_blocks(self) -> int:
        """KV blocks in the pool."""
        return self.memory.plan.num_kv_blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class _Usable:
    """What may be planned with: the limit's rest, and what this process has of it."""

    limit: MemoryLimit
    resident_bytes: int
    body_bytes: int

    @property
    def usable_bytes(self) -> int:
        return self.limit.available_bytes + self.resident_bytes

    @property
    def server_bytes(self) -> int:
        return self.resident_bytes + SERVER_GROWTH_BYTES + SCORED_ANSWER_BYTES + self.body_bytes

    def planned(self, plan: MemoryPlan) -> PlannedMemory:
        return PlannedMemory(plan=plan, limit=self.limit, usable_bytes=self.usable_bytes)


def simulated_sizes(options: ServeOptions, model: ModelConfig | None) -> Sizes:
    """Sizes of an engine whose KV cache is of the profile, or of the memory asked for.

    Raises:
        StartError: One request may be longer than the KV cache holds.
    """
    if model is None:
        model_len = options.max_model_len or SIMULATED_MODEL_LEN
        bytes_per_token, per_queued = SIMULATED_KV_BYTES_PER_TOKEN, QUEUED_BYTE_BYTES
    else:
        model_len = _model_len(options, model.context_length)
        bytes_per_token, per_queued = model.kv_bytes_per_token, QUEUED_TOKEN_BYTES
    if options.kv_cache_memory is None:
        capacity = profile(options).kv_capacity_tokens
    else:
        capacity = options.kv_cache_memory // bytes_per_token
    blocks = capacity // options.block_size
    _check_holds_one(blocks, model_len, options.block_size, bytes_per_token)
    usable = _look(options)
    try:
        plan = plan_simulated(
            available_bytes=usable.usable_bytes,
            num_kv_blocks=blocks,
            queue_bytes=options.max_queued_tokens * per_queued,
            server_bytes=usable.server_bytes,
        )
    except InsufficientMemoryError as error:
        raise StartError(str(error)) from error
    return Sizes(max_model_len=model_len, memory=usable.planned(plan))


def real_sizes(
    options: ServeOptions, model: ModelConfig, max_num_batched_tokens: int, max_num_seqs: int
) -> Sizes:
    """Sizes of an engine that computes, planned from the checkpoint's header alone.

    Args:
        options: Flags.
        model: Shape of the model.
        max_num_batched_tokens: Ceiling that can be reached.
        max_num_seqs: As above.

    Raises:
        StartError: Memory does not suffice; with the arithmetic and what to lower.
    """
    from paceline_engine.runner.memory_plan import blocks_in, plan_memory  # noqa: PLC0415 numpy

    model_len = _model_len(options, model.context_length)
    wanted = options.kv_cache_memory
    blocks = None if wanted is None else blocks_in(wanted, model, options.block_size)
    if blocks is not None:
        _check_holds_one(blocks, model_len, options.block_size, model.kv_bytes_per_token)
    usable = _look(options)
    try:
        plan = plan_memory(
            model,
            available_bytes=usable.usable_bytes,
            max_model_len=model_len,
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            block_size=options.block_size,
            num_kv_blocks=blocks,
            max_queued_tokens=options.max_queued_tokens,
            server_bytes=usable.server_bytes,
        )
    except InsufficientMemoryError as error:
        raise StartError(str(error)) from error
    return Sizes(max_model_len=model_len, memory=usable.planned(plan))


def _look(options: ServeOptions) -> _Usable:
    return _Usable(
        limit=nearest_limit(),
        resident_bytes=resident_bytes(),
        body_bytes=planned_bytes(options.max_body_bytes),
    )


def _model_len(options: ServeOptions, context_length: int) -> int:
    if options.max_model_len is not None and options.max_model_len > context_length:
        raise StartError(
            f"{Flag.MAX_MODEL_LEN} {options.max_model_len} is above the model's context of "
            f"{context_length} tokens"
        )
    return options.max_model_len or context_length


def _check_holds_one(blocks: int, model_len: int, block_size: int, bytes_per_token: int) -> None:
    """Whether the KV cache holds one request of full length, on any device."""
    needed = round_up(model_len, block_size)
    if blocks * block_size < needed:
        raise StartError(
            f"too little memory: the KV cache holds {blocks * block_size} tokens and one request "
            f"may have {model_len}; raise {Flag.KV_CACHE_MEMORY} to {needed * bytes_per_token} or "
            f"lower {Flag.MAX_MODEL_LEN} to {blocks * block_size}"
        )
