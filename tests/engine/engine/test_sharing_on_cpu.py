"""The scheduler's sharing on a real model: forks, hits and preemption change no token."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from paceline_engine.config import EngineConfig
from paceline_engine.request import Request, Tier
from paceline_engine.runner.cpu import CpuRunner
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.scheduler import Scheduler
from tests.support import tiny_llama
from tests.support.steps import cpu_config

VOCABULARY = tiny_llama.SHAPE["vocab_size"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama.write(tmp_path_factory.mktemp("tiny"))


def family(*, forked: bool) -> list[Request]:
    """Two prompts of which the second begins like the first, three choices of each."""
    drawn = np.random.default_rng(5).integers(0, VOCABULARY, 90).tolist()
    prompts = (tuple(drawn[:53]), (*drawn[:40], *drawn[60:]))
    return [
        Request(
            request_id=10 * which + choice,
            prompt_token_ids=prompt,
            sampling=SamplingParams(
                seed=choice, temperature=1.0, max_tokens=40, ignore_eos=True, logprobs=2
            ),
            tier=Tier.BATCH if which else Tier.INTERACTIVE,
            parent_id=10 * which if forked and choice else None,
        )
        for which, prompt in enumerate(prompts)
        for choice in range(3)
    ]


def outputs(
    config: EngineConfig, requests: list[Request]
) -> tuple[dict[int, list[int]], dict[int, list[float]], int, int]:
    """Tokens and log-probabilities of each request; copies made and preemptions."""
    scheduler, runner = Scheduler(config), CpuRunner(config)
    for request in requests:
        scheduler.add(request, now_s=0.0)
    tokens: dict[int, list[int]] = {request.request_id: [] for request in requests}
    logprobs: dict[int, list[float]] = {request.request_id: [] for request in requests}
    copies = preemptions = 0
    while scheduler.has_work:
        step = scheduler.schedule(now_s=0.0)
        copies += len(step.copies)
        preemptions += len(step.preempted)
        for output in scheduler.update(runner.execute(step), now_s=0.0):
            tokens[output.request_id].extend(output.token_ids)
            logprobs[output.request_id].extend(each.logprob for each in output.logprobs)
    scheduler.check_idle()
    runner.close()
    return tokens, logprobs, copies, preemptions


@pytest.mark.behaviour(
    "on a real model choices that share their prompt's blocks answer like requests of their own",
    report="llama.cpp #28368: a reused prefix changed output or log-probabilities",
)
@pytest.mark.parametrize(
    ("budget", "blocks"), [(256, 256), (32, 256), (256, 20)], ids=["plenty", "chunked", "scarce"]
)
def test_sharing_changes_no_token(model: Path, budget: int, blocks: int) -> None:
    config = cpu_config(model, vocab_size=VOCABULARY, max_model_len=256)
    alone = outputs(replace(config, prefix_caching=False), family(forked=False))
    config = cpu_config(
        model, vocab_size=VOCABULARY, budget=budget, num_kv_blocks=blocks, max_model_len=256
    )
    shared = outputs(config, family(forked=True))
    assert shared[0] == alone[0]
    for request_id, expected in alone[1].items():
        assert shared[1][request_id] == pytest.approx(expected, abs=1e-4)
    assert shared[2] > 0
    assert bool(shared[3]) == (blocks == 20)
