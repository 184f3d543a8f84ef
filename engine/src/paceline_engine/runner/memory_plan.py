"""How many KV blocks fit: pure arithmetic over the model's shape and the ceilings.

Everything the CPU runner allocates is sized at start from the ceilings, so a live change of
a knob never allocates. `main` calls this before it starts the engine process and refuses
too little memory with the error's single line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from paceline_engine.config import round_up
from paceline_engine.weights.model_config import FP32_BYTES, ModelConfig

MIB: Final = 1 << 20

# Resident memory of the engine process before it holds a model: interpreter, torch and its
# libraries, measured with torch 2.15 (CUDA build) after its first operation.
RUNTIME_BYTES: Final = 420 * MIB

# Share of the total left free for allocator slack and short-lived buffers.
SLACK_RATIO: Final = 0.05


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


def plan_memory(
    model: ModelConfig,
    *,
    available_bytes: int,
    max_model_len: int,
    max_num_batched_tokens: int,
    max_num_seqs: int,
    block_size: int,
    num_kv_blocks: int | None = None,
) -> MemoryPlan:
    """Sizes the KV pool for the memory there is.

    Args:
        model: Shape of the model.
        available_bytes: Memory the engine process may use.
        max_model_len: Longest request in tokens; the pool must hold at least one.
        max_num_batched_tokens: Ceiling of the step's token budget.
        max_num_seqs: Ceiling of running sequences.
        block_size: Tokens in a block.
        num_kv_blocks: A wanted pool size; None takes what fits, up to what `max_num_seqs`
            requests of full length can use.

    Raises:
        InsufficientMemoryError: The pool wanted, or one longest request, does not fit.
    """
    fixed = _fixed_bytes(model, max_num_batched_tokens, max_num_seqs)
    block_bytes = model.kv_bytes_per_token * block_size
    blocks_per_request = round_up(max_model_len, block_size) // block_size
    fitting = int(available_bytes * (1 - SLACK_RATIO) - fixed) // block_bytes
    needed = blocks_per_request if num_kv_blocks is None else num_kv_blocks
    if fitting < max(needed, blocks_per_request):
        shortfall = int((fixed + max(needed, blocks_per_request) * block_bytes) / (1 - SLACK_RATIO))
        raise InsufficientMemoryError(
            f"too little memory: {available_bytes // MIB} MiB available, "
            f"{-(-shortfall // MIB)} MiB needed (runtime {RUNTIME_BYTES // MIB}, weights "
            f"{model.resident_weight_bytes // MIB}, {max(needed, blocks_per_request)} KV blocks "
            f"of {block_bytes // 1024} KiB); give more memory or lower --max-model-len"
        )
    return MemoryPlan(
        runtime_bytes=RUNTIME_BYTES,
        weight_bytes=model.resident_weight_bytes,
        activation_bytes=activation_bytes(model, max_num_batched_tokens, max_num_seqs),
        block_bytes=block_bytes,
        num_kv_blocks=num_kv_blocks or min(fitting, max_num_seqs * blocks_per_request),
    )


def _fixed_bytes(model: ModelConfig, max_num_batched_tokens: int, max_num_seqs: int) -> int:
    activations = activation_bytes(model, max_num_batched_tokens, max_num_seqs)
    return RUNTIME_BYTES + model.resident_weight_bytes + activations
