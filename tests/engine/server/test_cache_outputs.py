"""A real model answers the same with and without a prefix cache, forks and blocks of any size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import tiny_chat_model
from tests.support.engine_server import EngineServer, engine_server

SYSTEM = "You are the keeper of the lighthouse in the bay. Answer in the fewest words there are. "
QUESTIONS = ("Who are you?", "When is the next ship?", "")
SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0},
    "seeded": {"temperature": 1.0, "seed": 7},
    "choices": {"temperature": 1.0, "seed": 11, "n": 3},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_chat_model.write(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def uncached(model: Path) -> Iterator[EngineServer]:
    with started(model, "--prefix-caching=off") as running:
        yield running


def started(model: Path, *flags: str) -> Any:
    sizes = ("--kv-cache-memory=16Mi", "--max-model-len=256", "--max-num-seqs=8", "--threads=1")
    return engine_server(f"--model={model}", "--device=cpu", *sizes, *flags, law=None)


def answers(engine: EngineServer) -> dict[tuple[str, str], list[str]]:
    """Texts of all questions under all settings, one after the other."""
    return {
        (name, question): texts(engine, SYSTEM + question, settings)
        for name, settings in SETTINGS.items()
        for question in QUESTIONS
    }


def texts(engine: EngineServer, prompt: str, settings: dict[str, Any]) -> list[str]:
    body = {"prompt": prompt, "max_tokens": 16, "ignore_eos": True, **settings}
    answer = httpx.post(f"{engine.api}/v1/completions", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return [choice["text"] for choice in answer.json()["choices"]]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("block_size", [8, 64])
@pytest.mark.behaviour(
    "answers are the same with and without the prefix cache, greedy, seeded and with n > 1",
    report="llama.cpp #28368, #28527: reusing a prefix changed greedy output for the same prompt",
)
def test_a_cache_changes_no_answer(model: Path, uncached: EngineServer, block_size: int) -> None:
    expected = answers(uncached)
    assert uncached.value("prefix_cache_hits_tokens_total") == 0
    assert len({text for several in expected.values() for text in several}) > len(expected) / 2
    with started(model, f"--block-size={block_size}") as cached:
        assert answers(cached) == expected
        hits = cached.value("prefix_cache_hits_tokens_total")
        assert answers(cached) == expected, "what the answers themselves left in the cache"
        assert 0 < hits < cached.value("prefix_cache_hits_tokens_total")
