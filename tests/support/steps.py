"""Drives a runner through the real scheduler, and single model passes without one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from paceline_engine.config import Device, EngineConfig
from paceline_engine.kernels.base import Kernels
from paceline_engine.layers.kv_cache import allocate_kv_cache
from paceline_engine.models.llama import LlamaModel
from paceline_engine.request import Request
from paceline_engine.runner.base import Runner
from paceline_engine.runner.step_tensors import step_batch, token_ids
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.output import ScheduledChunk
from paceline_engine.scheduler.scheduler import Scheduler
from paceline_engine.weights.checkpoint import Checkpoint

GREEDY = SamplingParams(temperature=0.0, ignore_eos=True)


def cpu_config(
    path: Path,
    *,
    vocab_size: int,
    budget: int = 256,
    running: int = 16,
    num_kv_blocks: int = 256,
    block_size: int = 16,
    max_model_len: int = 512,
) -> EngineConfig:
    return EngineConfig(
        model_path=str(path),
        device=Device.CPU,
        max_model_len=max_model_len,
        max_num_batched_tokens=budget,
        max_num_seqs=running,
        initial_batched_tokens=budget,
        initial_running_seqs=running,
        num_kv_blocks=num_kv_blocks,
        block_size=block_size,
        vocab_size=vocab_size,
        eos_token_ids=(),
    )


def generate(
    runner: Runner,
    config: EngineConfig,
    prompts: Sequence[Sequence[int]],
    sampling: Sequence[SamplingParams],
) -> tuple[list[list[int]], int]:
    """Outputs of all requests, submitted at once, and how often one was preempted."""
    scheduler = Scheduler(config)
    for request_id, (prompt, settings) in enumerate(zip(prompts, sampling, strict=True)):
        scheduler.add(
            Request(request_id=request_id, prompt_token_ids=tuple(prompt), sampling=settings),
            now_s=0.0,
        )
    outputs: list[list[int]] = [[] for _ in prompts]
    preemptions = 0
    while scheduler.has_work:
        step = scheduler.schedule(now_s=0.0)
        preemptions += len(step.preempted)
        result = runner.execute(step)
        for token in scheduler.update(result, now_s=0.0):
            outputs[token.request_id].extend(token.token_ids)
    return outputs, preemptions


def chunk(tokens: Sequence[int], start: int, blocks: Sequence[int]) -> ScheduledChunk:
    return ScheduledChunk(
        request_id=0,
        token_ids=list(tokens),
        start=start,
        block_ids=list(blocks),
        is_decode=False,
        samples=True,
        sampling=GREEDY,
    )


def all_logits(
    checkpoint: Checkpoint, kernels: Kernels, prompts: Sequence[Sequence[int]], block_size: int = 16
) -> list[torch.Tensor]:
    """Logits of every position of each prompt, all prompts in one step."""
    model = LlamaModel(checkpoint, kernels, max(map(len, prompts)))
    chunks, taken = [], 0
    for prompt in prompts:
        needed = -(-len(prompt) // block_size)
        chunks.append(chunk(prompt, 0, range(taken, taken + needed)))
        taken += needed
    cache = allocate_kv_cache(checkpoint.config, taken, block_size)
    with torch.inference_mode():
        batch = step_batch(chunks, block_size)
        logits = model.logits(model.hidden_states(token_ids(chunks), batch, cache))
    return list(torch.split(logits, [len(prompt) for prompt in prompts]))
