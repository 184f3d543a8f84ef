"""Log-probabilities of a whole model, against transformers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from paceline_engine.message import TokenLogprobs
from paceline_engine.request import Request
from paceline_engine.runner.cpu import CpuRunner
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.output import ScheduledChunk, SchedulerOutput
from paceline_engine.scheduler.scheduler import Scheduler
from tests.support import tiny_llama
from tests.support.steps import cpu_config

VOCABULARY = tiny_llama.SHAPE["vocab_size"]
TOLERANCE = 1e-3
BLOCK = 16


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama.write(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def runner(model: Path) -> CpuRunner:
    return CpuRunner(cpu_config(model, vocab_size=VOCABULARY, block_size=BLOCK))


@pytest.fixture(scope="module")
def prompt() -> list[int]:
    return np.random.default_rng(8).integers(0, VOCABULARY, 75).tolist()  # type: ignore[no-any-return]  # numpy's


@pytest.fixture(scope="module")
def oracle(model: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()


@torch.inference_mode()
def truth(oracle: Any, tokens: Sequence[int]) -> torch.Tensor:
    """[tokens, vocabulary]: of what stands behind each token."""
    logits: torch.Tensor = oracle(torch.tensor([list(tokens)])).logits[0]
    return logits.double().log_softmax(-1)


def step(history: list[int], start: int, end: int, prompt: int, wish: SamplingParams) -> Any:
    item = ScheduledChunk(
        request_id=1,
        token_ids=history[start:end],
        start=start,
        block_ids=list(range(-(-end // BLOCK))),
        is_decode=end - start == 1,
        samples=end == len(history),
        sampling=wish,
        history=history,
        num_prompt_tokens=prompt,
    )
    return SchedulerOutput(step_id=0, chunks=(item,), budget=256)


def check(found: TokenLogprobs, expected: torch.Tensor, token: int, top: int) -> None:
    assert found.token_id == token
    assert found.logprob == pytest.approx(float(expected[token]), abs=TOLERANCE)
    assert abs(found.rank - 1 - int((expected > expected[token]).sum())) <= 1
    best = expected.topk(max(top, 1)).values[:top].tolist()
    assert [p for _, p in found.top] == pytest.approx(best, abs=TOLERANCE)
    for listed, logprob in found.top:
        assert logprob == pytest.approx(float(expected[listed]), abs=TOLERANCE)


@pytest.mark.parametrize("top", [0, 1, 20])
def test_drawn_tokens_have_the_logprobs_of_transformers(
    runner: CpuRunner, oracle: Any, prompt: list[int], top: int
) -> None:
    """Settings shape what is drawn and not what is reported."""
    wish = SamplingParams(
        temperature=1.3, seed=4, top_k=50, presence_penalty=1.0, logprobs=top, max_tokens=12
    )
    history, computed = prompt[:20], 0
    found = []
    for _ in range(12):
        result = runner.execute(step(history, computed, len(history), 20, wish))
        computed = len(history)
        history = [*history, result.sampled[0][1]]
        found.append(result.logprobs[1])
    expected = truth(oracle, history)
    for position, each in enumerate(found, start=20):
        check(each, expected[position - 1], history[position], top)


@pytest.mark.parametrize("cuts", [[75], [1, 75], [16, 33, 34, 75], [40, 74, 75]], ids=str)
def test_prompt_tokens_have_the_logprobs_of_transformers_however_it_is_cut(
    runner: CpuRunner, oracle: Any, prompt: list[int], cuts: list[int]
) -> None:
    wish = SamplingParams(temperature=0.0, prompt_logprobs=5)
    found: list[TokenLogprobs] = []
    start = 0
    for end in cuts:
        result = runner.execute(step(prompt, start, end, len(prompt), wish))
        found.extend(result.prompt_logprobs.get(1, ()))
        start = end
    expected = truth(oracle, prompt)
    assert len(found) == len(prompt) - 1
    for position, each in enumerate(found, start=1):
        check(each, expected[position - 1], prompt[position], 5)
    assert result.sampled == ((1, int(expected[-1].argmax())),)


@pytest.mark.parametrize(
    "sizes",
    [{}, {"budget": 32}, {"budget": 32, "num_kv_blocks": 20, "block_size": 8}],
    ids=["one step", "chunks", "preempted"],
)
def test_a_scheduled_request_gets_all_of_them_once(
    model: Path, oracle: Any, prompt: list[int], sizes: dict[str, int]
) -> None:
    config = cpu_config(model, vocab_size=VOCABULARY, **sizes)
    wish = SamplingParams(seed=3, max_tokens=30, logprobs=2, prompt_logprobs=1)
    scheduler, runner = Scheduler(config), CpuRunner(config)
    prompts = [prompt[:length] for length in (75, 40, 1)]
    for owner, tokens in enumerate(prompts):
        request = Request(request_id=owner, prompt_token_ids=tuple(tokens), sampling=wish)
        scheduler.add(request, now_s=0.0)
    texts = [list(tokens) for tokens in prompts]
    drawn: list[list[TokenLogprobs]] = [[] for _ in prompts]
    told: list[list[TokenLogprobs]] = [[] for _ in prompts]
    preemptions = 0
    while scheduler.has_work:
        step_ = scheduler.schedule(now_s=0.0)
        preemptions += len(step_.preempted)
        for output in scheduler.update(runner.execute(step_), now_s=0.0):
            texts[output.request_id].extend(output.token_ids)
            drawn[output.request_id].extend(output.logprobs)
            told[output.request_id].extend(output.prompt_logprobs)
    assert (preemptions > 0) == ("num_kv_blocks" in sizes)
    for text, scores, prompt_scores, tokens in zip(texts, drawn, told, prompts, strict=True):
        assert len(text) == len(tokens) + 30
        expected = truth(oracle, text)
        assert len(prompt_scores) == len(tokens) - 1
        for position, found in enumerate([*prompt_scores, *scores], start=1):
            top = 2 if position >= len(tokens) else 1
            check(found, expected[position - 1], text[position], top)


def test_a_vocabulary_narrower_than_the_model_reports_the_models_probabilities(
    model: Path, oracle: Any, prompt: list[int]
) -> None:
    narrow = CpuRunner(cpu_config(model, vocab_size=20, block_size=BLOCK))
    wish = SamplingParams(temperature=0.0, logprobs=20)
    result = narrow.execute(step(prompt, 0, len(prompt), len(prompt), wish))
    expected = truth(oracle, prompt)[-1, :20]
    check(result.logprobs[1], expected, int(expected.argmax()), 20)
    assert result.logprobs[1].rank == 1
