"""Which of many outputs are shown, with a model whose log-probabilities differ."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Any

import httpx
import pytest

from tests.support import tiny_chat_model
from tests.support.engine_server import EngineServer, engine_server

SIZES = ("--kv-cache-memory=16Mi", "--max-model-len=256", "--max-num-seqs=8", "--threads=1")
ASKED = {"prompt": "The keeper of", "max_tokens": 6, "ignore_eos": True, "seed": 11, "logprobs": 0}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    model = tiny_chat_model.write(tmp_path_factory.mktemp("model"))
    with engine_server(f"--model={model}", "--device=cpu", *SIZES, law=None) as running:
        yield running


def choices(server: EngineServer, **fields: int) -> list[dict[str, Any]]:
    answer = httpx.post(f"{server.api}/v1/completions", json={**ASKED, **fields}, timeout=60)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["choices"]
    return found


def mean(choice: dict[str, Any]) -> float:
    return fmean(choice["logprobs"]["token_logprobs"])


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.behaviour(
    "best_of shows the outputs with the highest mean log-probability, best first",
    report="best_of: which outputs are shown does not follow from their log-probabilities",
)
def test_the_best_shown_are_those_with_the_highest_means(real: EngineServer) -> None:
    every = choices(real, n=5)
    assert len({mean(choice) for choice in every}) == 5
    expected = sorted(every, key=mean, reverse=True)
    assert expected != every, "in the order of drawing the test would see nothing"
    best = choices(real, n=2, best_of=5)
    assert [choice["index"] for choice in best] == [0, 1]
    assert [choice["text"] for choice in best] == [choice["text"] for choice in expected[:2]]
    assert [mean(choice) for choice in best] == pytest.approx([mean(c) for c in expected[:2]])
