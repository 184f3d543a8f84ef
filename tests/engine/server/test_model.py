"""The whole path with real weights: command, tokenizer, template, CPU device, client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from openai import OpenAI

from tests.support.engine_server import EngineServer, engine_server
from tests.support.model_file import model_file

pytestmark = [pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(300)]
LOAD_S = 240.0  # weights are repacked at start; other tests may use the same cores
QUESTION = "What is the capital of France? Answer with one word."


@pytest.fixture(scope="module")
def smollm2() -> Iterator[EngineServer]:
    flags = ("--served-name=smollm2", "--kv-cache-memory=256Mi", "--max-model-len=1024")
    with engine_server(f"--model={model_file()}", *flags, law=None, ready=False) as running:
        running.wait_for("ready after", timeout_s=LOAD_S)
        yield running


@pytest.fixture(scope="module")
def client(smollm2: EngineServer) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{smollm2.api}/v1", api_key="none", max_retries=0) as openai:
        yield openai


def test_a_chat_is_answered(client: OpenAI, smollm2: EngineServer) -> None:
    stream = client.chat.completions.create(
        model="smollm2",
        messages=[{"role": "user", "content": QUESTION}],
        temperature=0,
        max_tokens=32,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert "Paris" in text
    assert chunks[-2].choices[0].finish_reason == "stop"
    usage = chunks[-1].usage
    assert usage is not None
    assert smollm2.value("generation_tokens_total") == usage.completion_tokens
    assert smollm2.value("prompt_tokens_total") == usage.prompt_tokens


def test_ignore_eos_goes_on(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model="smollm2",
        messages=[{"role": "user", "content": QUESTION}],
        temperature=0,
        max_tokens=32,
        extra_body={"ignore_eos": True},
    )
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 32
    assert answer.choices[0].finish_reason == "length"


def test_seeded_sampling_repeats(client: OpenAI) -> None:
    texts = {
        client.completions.create(
            model="smollm2", prompt="Once upon a time", seed=11, temperature=0.8, max_tokens=12
        )
        .choices[0]
        .text
        for _ in range(2)
    }
    assert len(texts) == 1


def test_stop_string_of_real_text(client: OpenAI) -> None:
    answer = client.completions.create(
        model="smollm2", prompt="1, 2, 3, 4,", temperature=0, max_tokens=32, stop=["7"]
    )
    assert answer.choices[0].text.strip() == "5, 6,"
    assert answer.choices[0].finish_reason == "stop"
