"""The CPU device: fp32 compute on packed weights and a paged KV cache."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

import torch

from paceline_engine.config import EngineConfig
from paceline_engine.kernels.choice import choose_kernels
from paceline_engine.layers.kv_cache import allocate_kv_cache, copy_blocks, wipe_blocks
from paceline_engine.models.llama import LlamaModel
from paceline_engine.runner.base import RunnerOutput
from paceline_engine.runner.memory_limit import available_memory_bytes
from paceline_engine.runner.memory_plan import plan_memory
from paceline_engine.runner.step_sampler import StepSampler
from paceline_engine.runner.step_tensors import step_batch, token_ids
from paceline_engine.scheduler.output import SchedulerOutput
from paceline_engine.weights.checkpoint import Checkpoint, open_checkpoint

_LOG = logging.getLogger(__name__)
# Below any logit, yet finite: what is not finite fails its request.
_NEVER: Final = -1e30


class CpuRunner:
    """Loads the model and executes steps on `config.num_threads` threads.

    Args:
        config: `model_path`, sizes and ceilings; everything is allocated for them here.

    Raises:
        CheckpointError: The model cannot be read; one line.
        InsufficientMemoryError: It does not fit; one line, before anything is loaded.
    """

    def __init__(self, config: EngineConfig) -> None:
        if config.model_path is None:
            raise ValueError("the cpu device needs model_path")
        torch.set_num_threads(config.num_threads)
        self._config = config
        self._sampler = StepSampler(config.vocab_size, config.eos_token_ids)
        with open_checkpoint(config.model_path) as checkpoint:
            _check_memory(checkpoint, config)
            shape = checkpoint.config
            kernels = choose_kernels(shape.head_dim, config.block_size)
            self._model: LlamaModel | None = LlamaModel(checkpoint, kernels, config.max_model_len)
        self._cache = allocate_kv_cache(shape, config.num_kv_blocks, config.block_size)
        self._unsampled = torch.tensor(config.unsampled_ids, dtype=torch.int64)
        _LOG.info("model %s loaded, %s", config.model_path, type(kernels).__name__)

    @torch.inference_mode()
    def execute(self, output: SchedulerOutput) -> RunnerOutput:
        """Runs one non-empty step; see `Runner.execute`."""
        if self._model is None:
            raise RuntimeError("the runner is closed")
        copy_blocks(self._cache, output.copies)
        wipe_blocks(self._cache, output.wipes)
        chunks = output.chunks
        batch = step_batch(chunks, self._config.block_size)
        hidden = self._model.hidden_states(token_ids(chunks), batch, self._cache)
        return self._sampler.output(chunks, hidden, self._logits)

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        if self._model is None:
            raise RuntimeError("the runner is closed")
        logits = self._model.logits(hidden)
        return logits.index_fill_(1, self._unsampled, _NEVER)

    def wipe(self, block_ids: Sequence[int]) -> None:
        """Overwrites blocks with zeros; see `Runner`."""
        wipe_blocks(self._cache, block_ids)

    def close(self) -> None:
        """Frees weights and KV tensors; safe to call twice."""
        self._model = None
        self._cache = []


def _check_memory(checkpoint: Checkpoint, config: EngineConfig) -> None:
    plan = plan_memory(
        checkpoint.config,
        available_bytes=available_memory_bytes(),
        max_model_len=config.max_model_len,
        max_num_batched_tokens=config.max_num_batched_tokens,
        max_num_seqs=config.max_num_seqs,
        block_size=config.block_size,
        num_kv_blocks=config.num_kv_blocks,
        is_runtime_loaded=True,
    )
    _LOG.info("memory plan: %s", plan.arithmetic)
