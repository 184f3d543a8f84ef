"""The CPU runner under the real scheduler: grouping into steps never changes an output."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from paceline_engine.config import EngineConfig
from paceline_engine.kernels.choice import choose_kernels
from paceline_engine.kernels.cpu import artifact
from paceline_engine.kernels.cpu.library import CpuKernels
from paceline_engine.runner import cpu, memory_plan
from paceline_engine.runner.cpu import CpuRunner
from paceline_engine.runner.failure import Failure
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.output import ScheduledChunk, SchedulerOutput
from paceline_engine.weights import CheckpointNotFoundError
from tests.support import tiny_llama
from tests.support.steps import chunk, cpu_config, generate

VOCABULARY = tiny_llama.SHAPE["vocab_size"]
OUTPUT = 24


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama.write(tmp_path_factory.mktemp("tiny"))


def requests() -> tuple[list[list[int]], list[SamplingParams]]:
    draw = np.random.default_rng(5)
    prompts = [draw.integers(0, VOCABULARY, n).tolist() for n in (1, 3, 16, 17, 40, 63, 64, 100)]
    kinds: list[dict[str, Any]] = [
        {"top_p": 0.9},
        {"temperature": 0.0},
        {"presence_penalty": 0.6, "repetition_penalty": 1.2, "min_p": 0.02, "min_tokens": 9},
        {"temperature": 0.0, "frequency_penalty": 0.4, "bad_words": ((3,), (5, 9))},
    ]
    sampling = [
        SamplingParams(seed=index, max_tokens=OUTPUT, **kinds[index % len(kinds)])
        for index in range(len(prompts))
    ]
    return prompts, sampling


def run(model: Path, **sizes: int) -> tuple[list[list[int]], int]:
    config = cpu_config(model, vocab_size=VOCABULARY, **sizes)
    return generate(CpuRunner(config), config, *requests())


@pytest.fixture(scope="module")
def alone(model: Path) -> list[list[int]]:
    """Each request by itself, its prompt in one chunk, on the compiled kernels."""
    assert isinstance(choose_kernels(tiny_llama.SHAPE["head_dim"], 16), CpuKernels)
    config = cpu_config(model, vocab_size=VOCABULARY)
    runner = CpuRunner(config)
    prompts, sampling = requests()
    return [
        generate(runner, config, [prompt], [settings])[0][0]
        for prompt, settings in zip(prompts, sampling, strict=True)
    ]


@pytest.mark.parametrize(
    "sizes",
    [
        {"budget": 256},
        {"budget": 32},
        {"budget": 16, "running": 15},
        {"budget": 48, "running": 3},
        {"budget": 64, "block_size": 8},
    ],
    ids=["one step", "chunks of 32", "chunks of 16", "three at a time", "blocks of 8"],
)
def test_batching_and_chunking_change_nothing(
    model: Path, alone: list[list[int]], sizes: dict[str, int]
) -> None:
    outputs, _ = run(model, **sizes)
    assert outputs == alone


@pytest.mark.behaviour(
    "a request that is preempted and computed again goes on with its penalties, seed and counts",
    report="FastDeploy PR #3071: after preemption only the prompt was computed and output was lost",
)
def test_preemption_changes_nothing(model: Path, alone: list[list[int]]) -> None:
    outputs, preemptions = run(model, num_kv_blocks=30, block_size=8, budget=64)
    assert preemptions > 0
    assert outputs == alone


def test_reference_kernels_draw_the_same(
    model: Path,
    alone: list[list[int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(artifact.DIRECTORY_VARIABLE, str(tmp_path))
    outputs, _ = run(model)
    assert outputs == alone


def test_a_request_whose_logits_are_not_finite_fails_alone(model: Path) -> None:
    runner = CpuRunner(cpu_config(model, vocab_size=VOCABULARY))
    assert runner._model is not None
    runner._model._embedding[7] = torch.nan  # a file that says so is refused
    good, bad = chunk([3, 4, 5], 0, [0]), chunk([3, 7, 5], 0, [1])
    step = SchedulerOutput(step_id=0, chunks=(_named(good, 1), _named(bad, 2)), budget=16)
    result = runner.execute(step)
    alone = runner.execute(SchedulerOutput(step_id=1, chunks=(_named(good, 1),), budget=16))
    assert result.failed == ((2, Failure.NON_FINITE.value),)
    assert result.sampled == alone.sampled
    reused = _named(chunk([3, 4, 5], 0, [1]), 3)
    clean = runner.execute(SchedulerOutput(step_id=2, chunks=(reused,), budget=16))
    assert clean.sampled[0][1] == alone.sampled[0][1]


def _named(item: ScheduledChunk, request_id: int) -> ScheduledChunk:
    return msgspec.structs.replace(item, request_id=request_id)


def test_only_the_vocabulary_of_the_configuration_is_drawn(model: Path) -> None:
    config = cpu_config(model, vocab_size=20)
    prompts = [[1, 2, 3]]
    outputs, _ = generate(
        CpuRunner(config), config, prompts, [SamplingParams(seed=1, max_tokens=200)]
    )
    assert len(outputs[0]) == 200
    assert max(outputs[0]) < 20


def test_threads_are_those_of_the_configuration(model: Path) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        CpuRunner(cpu_config(model, vocab_size=VOCABULARY))
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_too_little_memory_is_refused_before_loading(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "available_memory_bytes", lambda: 1 << 20)
    monkeypatch.setattr(cpu, "LlamaModel", None)
    with pytest.raises(memory_plan.InsufficientMemoryError, match="too little memory: needed"):
        CpuRunner(cpu_config(model, vocab_size=VOCABULARY))


def test_a_missing_model_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFoundError, match="does not exist"):
        CpuRunner(cpu_config(tmp_path / "none.gguf", vocab_size=VOCABULARY))


def test_loading_says_what_it_takes(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    runner = CpuRunner(cpu_config(model, vocab_size=VOCABULARY))
    assert "memory plan: runtime 0 + weights 1 + " in caplog.text
    runner.close()
    runner.close()
    with pytest.raises(RuntimeError, match="closed"):
        runner.execute(SchedulerOutput(step_id=0, chunks=(chunk([1], 0, [0]),), budget=16))


@pytest.mark.behaviour(
    "ids that stand for nothing are never drawn, nor do they fail a request",
    report="unused rows of a vocabulary are sampled and end in an error or in noise",
)
@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_unused_ids_are_never_drawn(model: Path, temperature: float) -> None:
    sampling = SamplingParams(temperature=temperature, seed=3, max_tokens=OUTPUT, ignore_eos=True)
    config = cpu_config(model, vocab_size=VOCABULARY)
    drawn = _drawn(config, sampling)
    unused = tuple(sorted(set(drawn)))
    outputs = _drawn(replace(config, unsampled_ids=unused), sampling)
    assert len(outputs) == OUTPUT
    assert not set(outputs) & set(unused)


def _drawn(config: EngineConfig, sampling: SamplingParams) -> list[int]:
    runner = CpuRunner(config)
    outputs, _ = generate(runner, config, [[5, 9, 11]], [sampling])
    runner.close()
    return outputs[0]
