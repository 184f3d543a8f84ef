"""How a simulated engine is made: what a real one is told at its start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from paceline_operator.simulator.generator import Generator
from paceline_operator.simulator.law import StepTime
from paceline_operator.simulator.queue_limits import QueueLimits
from paceline_operator.simulator.step_budget import StepBudget
from paceline_operator.simulator.step_noise import NO_NOISE, StepNoise

PROJECTED_KV = 8.0
"""KV that all admitted requests may come to need, in multiples of the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Sizes, ceilings and start values; defaults are those of the engine's flags.

    Attributes:
        law: Step time.
        num_kv_blocks: KV blocks in the pool.
        max_model_len: Prompt plus output tokens of one request at most.
        max_num_batched_tokens: Ceiling of the step's token budget.
        max_num_seqs: Ceiling of concurrently running requests.
        initial_batched_tokens: Budget in force at start.
        initial_running_seqs: Running cap in force at start.
        block_size: Tokens in one KV block.
        budget_step: Granularity of the budget.
        prefix_caching: Whether computed blocks are kept for prompts that begin alike.
        batch_weight: Tokens the batch tier gets for each interactive one while both wait.
        interactive_max_wait_s: Wait from which nothing of its tier overtakes an interactive
            request.
        batch_max_wait_s: The same for a batch request.
        step_time_target_ms: Step time to keep from the start; 0 is none.
        max_queued_requests: Requests that may be without a first token.
        max_queued_tokens: Prompt tokens of those.
        max_kv_tokens: KV tokens that all admitted requests may come to need; None for
            `PROJECTED_KV` times the cache.
        max_queue_s: Longest expected wait for a first token; None for any.
        queue_limits_s: The same by tier in place of it, where the objectives say it.
        step_budget: Rule that picks the budget of each step below the one in force; none in
            our engine.
        step_noise: How far single steps lie from the law.
        generators: Chance for that, from the seed; without it steps take what the law says.
        noise_seed: Of that chance.
    """

    law: StepTime
    num_kv_blocks: int
    max_model_len: int
    max_num_batched_tokens: int
    max_num_seqs: int
    initial_batched_tokens: int
    initial_running_seqs: int
    block_size: int = 16
    budget_step: int = 16
    prefix_caching: bool = True
    batch_weight: float = 0.1
    interactive_max_wait_s: float = 10.0
    batch_max_wait_s: float = 900.0
    step_time_target_ms: float = 0.0
    max_queued_requests: float = 1024
    max_queued_tokens: float = 1_000_000
    max_kv_tokens: float | None = None
    max_queue_s: float | None = None
    queue_limits_s: QueueLimits | None = None
    step_budget: StepBudget | None = None
    step_noise: StepNoise = NO_NOISE
    generators: Callable[[int], Generator] | None = None
    noise_seed: int = 0

    @property
    def kv_capacity_tokens(self) -> int:
        """Tokens the whole KV pool holds."""
        return self.num_kv_blocks * self.block_size

    @property
    def max_request_tokens(self) -> int:
        """Prompt plus output tokens of one request at most, by context and by KV pool."""
        return min(self.max_model_len, self.kv_capacity_tokens)
