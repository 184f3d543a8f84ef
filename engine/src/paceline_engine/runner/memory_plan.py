"""How many KV blocks fit: pure arithmetic over the model's shape and the ceilings.

Everything the CPU runner keeps is sized at start from the ceilings, so a live change of a
knob needs no more memory. `main` calls this before it starts the engine process and refuses
too little memory with the error's single line; the runner checks again before it loads.

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

from dataclasses import dataclass, replace
from typing import Final

from paceline_engine.config import round_up
from paceline_engine.weights.model_config import FP32_BYTES, ModelConfig

MIB: Final = 1 << 20

# Resident memory of the engine process before it holds a model: interpreter, torch and its
# libraries, and what loading leaves behind; measured with torch 2.15 (CUDA build).
RUNTIME_BYTES: Final = 620 * MIB

# Share of the total left free for allocator slack and short-lived buffers.
SLACK_RATIO: Final = 0.05

# The KV pool nobody asked a size for stays below this: a machine without a limit is not ours
# alone.
DEFAULT_KV_BYTES: Final = 4096 * MIB


class InsufficientMemoryError(Exception):
    """The model and one longest request do not fit; the message is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """Where the memory goes.

    Attributes:
        runtime_bytes: Interpreter and libraries.
        weight_bytes: Packed fp32 weights and the embedding.
        activation_bytes: Buffers of one step at the ceiling budget.
        block_bytes: One KV block over all layers.
        num_kv_blocks: Blocks in the pool.
    """

    runtime_bytes: int
    weight_bytes: int
    activation_bytes: int
    block_bytes: int
    num_kv_blocks: int

    @property
    def kv_bytes(self) -> int:
        """The whole KV pool."""
        return self.num_kv_blocks * self.block_bytes

    @property
    def total_bytes(self) -> int:
        """Everything together."""
        return self.runtime_bytes + self.weight_bytes + self.activation_bytes + self.kv_bytes

    @property
    def arithmetic(self) -> str:
        """The sum in one line, in MiB."""
        return (
            f"runtime {_mib(self.runtime_bytes)} + weights {_mib(self.weight_bytes)} + "
            f"activations {_mib(self.activation_bytes)} + KV {_mib(self.kv_bytes)} "
            f"({self.num_kv_blocks} blocks of {self.block_bytes // 1024} KiB) = "
            f"{_mib(self.total_bytes)} MiB"
        )


def blocks_in(kv_bytes: int, model: ModelConfig, block_size: int) -> int:
    """Whole KV blocks in `kv_bytes`."""
    return kv_bytes // (model.kv_bytes_per_token * block_size)


def activation_bytes(model: ModelConfig, max_num_batched_tokens: int, max_num_seqs: int) -> int:
    """Bytes of the largest step's activations.

    Per token the residual stream, its normalised copy and a projection's output (hidden),
    fused qkv, attention output, fused gate and up with their product; per sequence one row
    of logits and a copy of it for sampling.
    """
    per_token = 3 * model.hidden_size + model.qkv_size + model.q_size + 3 * model.intermediate_size
    per_sequence = 2 * model.vocab_size + model.hidden_size
    elements = max_num_batched_tokens * per_token + max_num_seqs * per_sequence
    return elements * FP32_BYTES


def plan_memory(  # noqa: PLR0913  (keywords only; each is one ceiling)
    model: ModelConfig,
    *,
    available_bytes: int,
    max_model_len: int,
    max_num_batched_tokens: int,
    max_num_seqs: int,
    block_size: int,
    num_kv_blocks: int | None = None,
    is_runtime_loaded: bool = False,
) -> MemoryPlan:
    """Sizes the KV pool for the memory there is.

    Args:
        model: Shape of the model.
        available_bytes: Memory the engine process may still take.
        max_model_len: Longest request in tokens; a pool sized here holds at least one.
        max_num_batched_tokens: Ceiling of the step's token budget.
        max_num_seqs: Ceiling of running sequences.
        block_size: Tokens in a block.
        num_kv_blocks: A wanted pool size, taken as it is; None takes what fits, up to
            `DEFAULT_KV_BYTES` (or one longest request) and to what `max_num_seqs` requests of
            full length can use.
        is_runtime_loaded: Whether the caller is the process that has loaded torch already.

    Raises:
        InsufficientMemoryError: The pool wanted, or one longest request, does not fit.
    """
    fixed = MemoryPlan(
        runtime_bytes=0 if is_runtime_loaded else RUNTIME_BYTES,
        weight_bytes=model.resident_weight_bytes,
        activation_bytes=activation_bytes(model, max_num_batched_tokens, max_num_seqs),
        block_bytes=model.kv_bytes_per_token * block_size,
        num_kv_blocks=0,
    )
    slack = 0.0 if is_runtime_loaded else SLACK_RATIO
    fitting = (int(available_bytes * (1 - slack)) - fixed.total_bytes) // fixed.block_bytes
    per_request = round_up(max_model_len, block_size) // block_size
    needed = num_kv_blocks or per_request
    if fitting < needed:
        raise InsufficientMemoryError(
            _refusal(replace(fixed, num_kv_blocks=needed), available_bytes)
        )
    default = max(per_request, DEFAULT_KV_BYTES // fixed.block_bytes)
    chosen = num_kv_blocks or min(fitting, default, max_num_seqs * per_request)
    return replace(fixed, num_kv_blocks=chosen)


def _refusal(plan: MemoryPlan, available_bytes: int) -> str:
    slack = f", of which {SLACK_RATIO:.0%} stay free" if plan.runtime_bytes else ""
    return (
        f"too little memory: needed {plan.arithmetic}, available {_mib(available_bytes)} MiB"
        f"{slack}; give more memory or lower --max-model-len, --kv-cache-memory or "
        "--max-num-batched-tokens"
    )


def _mib(size: int) -> int:
    return -(-size // MIB)
