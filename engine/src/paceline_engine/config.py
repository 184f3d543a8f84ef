"""Start-up configuration of one engine: what is fixed until the process ends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

API_PORT = 8000
HEALTH_PORT = 8001
ADMIN_PORT = 8002


class Device(StrEnum):
    """Where the forward pass runs."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"
    SIMULATED = "simulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimeLaw:
    """Step time of the simulated device, in milliseconds.

    T = max(floor_ms + floor_per_token_ms * n, base_ms + per_token_ms * n) + per_kv_token_ms * k
    with n scheduled tokens and k resident KV tokens.
    """

    base_ms: float
    per_token_ms: float
    per_kv_token_ms: float = 0.0
    floor_ms: float = 0.0
    floor_per_token_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Everything the engine process needs; travels to it as JSON.

    Attributes:
        model_path: GGUF file or Hugging Face directory; None on the simulated device means
            the built-in byte vocabulary.
        device: Resolved device, never `AUTO` once the process starts.
        step_time_law: Simulated device only.
        load_seconds: Simulated device only: pretended model load time.
        max_model_len: Prompt plus output tokens of one request at most.
        max_num_batched_tokens: Ceiling of the step's token budget; buffers are sized for it.
        max_num_seqs: Ceiling of concurrently running sequences.
        initial_batched_tokens: Budget in force at start, at most the ceiling.
        initial_running_seqs: Running cap in force at start, at most the ceiling.
        initial_step_time_target_ms: Step time to keep from the start; 0 is none.
        block_size: Tokens in one KV block.
        num_kv_blocks: KV blocks in the pool.
        num_threads: Compute threads of the CPU device.
        vocab_size: Size of the vocabulary that may be sampled.
        eos_token_ids: End-of-generation set.
        unsampled_ids: Ids below vocab_size that stand for nothing and are never drawn.
        prefix_caching: Whether computed blocks are kept for prompts that begin alike.
        cache_retention_s: A cached block unused for so long is dropped; None keeps it until
            its place is needed.
        model_revision: Digest of the weights; part of every prefix key. The engine process
            makes it while it loads.
        batch_weight: Tokens the batch tier gets for each of the interactive tier's while both
            wait.
        interactive_max_wait_s: After so long in the queue nothing of its tier may overtake an
            interactive request.
        batch_max_wait_s: The same for the batch tier.
        tenant_weights: (tenant, weight) where it is not 1: share of tokens inside a tier.
    """

    model_path: str | None
    device: Device
    max_model_len: int
    max_num_batched_tokens: int
    max_num_seqs: int
    initial_batched_tokens: int
    initial_running_seqs: int
    num_kv_blocks: int
    vocab_size: int
    eos_token_ids: tuple[int, ...]
    block_size: int = 16
    num_threads: int = 1
    step_time_law: StepTimeLaw | None = None
    load_seconds: float = 0.0
    prefix_caching: bool = True
    cache_retention_s: float | None = None
    model_revision: str = ""
    batch_weight: float = 0.1
    interactive_max_wait_s: float = 10.0
    batch_max_wait_s: float = 900.0
    tenant_weights: tuple[tuple[str, float], ...] = ()
    initial_step_time_target_ms: float = 0.0
    unsampled_ids: tuple[int, ...] = ()

    @property
    def budget_step(self) -> int:
        """Granularity of the token budget: the kernels' row tile."""
        return budget_step(self.device)

    @property
    def kv_capacity_tokens(self) -> int:
        """Tokens the whole KV pool holds."""
        return self.num_kv_blocks * self.block_size

    @property
    def max_request_tokens(self) -> int:
        """Prompt plus output tokens of one request at most, by context and by KV pool.

        A prompt must be shorter, to leave room for output; `max_tokens` beyond it ends the
        output early with `FinishReason.LENGTH`.
        """
        return min(self.max_model_len, self.kv_capacity_tokens)


def budget_step(device: Device) -> int:
    """Granularity of the token budget on a device: the kernels' row tile."""
    return 128 if device is Device.CUDA else 16


def round_up(value: int, multiple: int) -> int:
    """Smallest multiple of `multiple` that is at least `value`."""
    return -(-value // multiple) * multiple


def budget_floor(running_seqs: int, step: int, draft_tokens: int = 0) -> int:
    """Smallest budget that lets every running sequence decode and one prompt advance.

    Args:
        running_seqs: Running-sequence cap in force.
        step: Budget granularity.
        draft_tokens: Draft tokens a speculating sequence verifies in one step.
    """
    return round_up(running_seqs * (1 + draft_tokens) + 1, step)
