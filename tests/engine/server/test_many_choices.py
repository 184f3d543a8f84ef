"""n, best_of and echo through the official client: choices, seeds, usage."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from openai import OpenAI
from openai.types import Completion

from tests.engine.server.conftest import MODEL


def create(client: OpenAI, **asked: Any) -> Completion:
    answer = client.completions.create(model=MODEL, **({"prompt": "abc", "max_tokens": 8} | asked))
    assert isinstance(answer, Completion)
    return answer


def texts(answer: Completion) -> list[str]:
    return [choice.text for choice in answer.choices]


@pytest.mark.behaviour(
    "n choices differ though the request has one seed, and the first is that of n = 1",
    report="vllm #10852, PR #11898: n > 1 with one seed returned n equal texts",
)
def test_choices_differ_and_the_first_is_the_only_one_s(client: OpenAI) -> None:
    many = create(client, n=4, seed=5)
    assert [choice.index for choice in many.choices] == [0, 1, 2, 3]
    assert len(set(texts(many))) == 4
    assert texts(many) == texts(create(client, n=4, seed=5))
    assert texts(many)[0] == texts(create(client, seed=5))[0]
    assert texts(many)[:2] == texts(create(client, n=2, seed=5))


def test_prompts_times_choices(client: OpenAI) -> None:
    both = create(client, prompt=["abc", "de"], n=2, seed=5)
    assert texts(both)[:2] == texts(create(client, prompt="abc", n=2, seed=5))
    assert texts(both)[2:] == texts(create(client, prompt="de", n=2, seed=5))
    assert both.usage is not None
    assert (both.usage.prompt_tokens, both.usage.completion_tokens) == (5, 32)


@pytest.mark.behaviour(
    "every choice streams until its own finish",
    report="vllm #10852: other choices went silent once the first ended",
)
@pytest.mark.behaviour(
    "streamed usage is the sum over choices and equal to the whole answer's",
    report="vllm #8625, PR #9357: it counted one choice, or was not cumulative",
)
def test_every_choice_streams_to_its_own_end(client: OpenAI) -> None:
    asked: dict[str, Any] = {"n": 3, "seed": 5, "max_tokens": 20}
    plain = create(client, **asked)
    asked["stop"] = [texts(plain)[1][6:14]]
    whole = create(client, **asked)
    assert {choice.finish_reason for choice in whole.choices} == {"stop", "length"}
    stream = client.completions.create(
        model=MODEL, prompt="abc", stream=True, stream_options={"include_usage": True}, **asked
    )
    shown: dict[int, str] = {}
    ends: dict[int, str] = {}
    usage = None
    for chunk in stream:
        usage = chunk.usage
        for choice in chunk.choices:
            assert choice.index not in ends
            shown[choice.index] = shown.get(choice.index, "") + choice.text
            if choice.finish_reason:
                ends[choice.index] = choice.finish_reason
    assert [shown[i] for i in range(3)] == texts(whole)
    assert [ends[i] for i in range(3)] == [choice.finish_reason for choice in whole.choices]
    assert usage == whole.usage


def test_chat_has_choices_too(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "Hello"}],
        n=2,
        seed=1,
        max_tokens=5,
        logprobs=True,
        top_logprobs=2,
    )
    assert len({choice.message.content for choice in answer.choices}) == 2
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 10
    for choice in answer.choices:
        assert choice.logprobs is not None
        content = choice.logprobs.content or []
        assert len(content) == 5
        raw = bytes(byte for token in content for byte in token.bytes or [])
        assert raw.decode("utf-8", "replace") == choice.message.content
        assert {len(token.top_logprobs) for token in content} == {2}


def test_best_of_shows_the_best_and_counts_them_all(client: OpenAI) -> None:
    answer = create(client, n=2, best_of=5, seed=5, max_tokens=3)
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert {choice.logprobs for choice in answer.choices} == {None}
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (3, 15)
    assert set(texts(answer)) <= set(texts(create(client, n=5, seed=5, max_tokens=3)))


@pytest.mark.parametrize("prompt", ["héllo", [104, 105, 256]])
@pytest.mark.parametrize("max_tokens", [0, 3])
@pytest.mark.parametrize("n", [1, 2])
def test_echo(client: OpenAI, prompt: str | list[int], max_tokens: int, n: int) -> None:
    asked: dict[str, Any] = {"prompt": prompt, "seed": 3, "n": n, "logprobs": 1}
    shown = "héllo" if isinstance(prompt, str) else "hi<|endoftext|>"
    answer = create(client, **asked, echo=True, max_tokens=max_tokens)
    plain = texts(create(client, **asked, max_tokens=max_tokens)) if max_tokens else [""] * n
    assert texts(answer) == [shown + text for text in plain]
    assert answer.usage is not None
    assert answer.usage.completion_tokens == n * max_tokens
    for choice in answer.choices:
        assert choice.finish_reason == "length"
        logprobs = choice.logprobs
        assert logprobs is not None
        assert logprobs.tokens is not None
        assert logprobs.token_logprobs is not None
        count = answer.usage.prompt_tokens + max_tokens
        assert len(logprobs.tokens) == len(logprobs.token_logprobs) == count
        assert logprobs.token_logprobs[0] is None
        assert None not in logprobs.token_logprobs[1:]


def test_echo_without_logprobs(client: OpenAI) -> None:
    answer = create(client, prompt=["ab", "c"], echo=True, max_tokens=0)
    assert texts(answer) == ["ab", "c"]
    assert answer.choices[0].logprobs is None


def test_prompt_logprobs_of_every_choice(http: httpx.Client) -> None:
    body = {"prompt": "ab", "n": 2, "prompt_logprobs": 1, "max_tokens": 1}
    choices = http.post("/v1/completions", json=body).json()["choices"]
    for choice in choices:
        first, second = choice["prompt_logprobs"]
        assert first is None
        assert set(second["98"]) == {"logprob", "rank", "decoded_token"}
    chat = {"messages": [{"role": "user", "content": "a"}], "prompt_logprobs": 0, "max_tokens": 1}
    answer = http.post("/v1/chat/completions", json=chat).json()
    assert len(answer["prompt_logprobs"]) == answer["usage"]["prompt_tokens"]


def test_usage_tells_what_the_cache_held(http: httpx.Client) -> None:
    def cached(**more: Any) -> int:
        body = {"prompt": "z" * 40, "max_tokens": 1, "n": 2, **more}
        answer = http.post("/v1/completions", json=body)
        usage = answer.json()["usage"]
        assert usage["prompt_tokens"] == 40
        count: int = usage["prompt_tokens_details"]["cached_tokens"]
        return count

    assert cached() == 0
    assert cached() == 32  # whole blocks of 16
    assert cached(cache_salt="other") == 0
    assert cached(cache_salt="other") == 32
    assert cached(prompt_logprobs=0) == 0


def test_continuous_usage(http: httpx.Client) -> None:
    body = {
        "prompt": "abc",
        "max_tokens": 4,
        "n": 2,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    seen: dict[int, list[int]] = {0: [], 1: []}
    with httpx.stream("POST", f"{http.base_url}/v1/completions", json=body) as answer:
        events = [line[6:] for line in answer.iter_lines() if line.startswith("data: {")]
    chunks = [httpx.Response(200, content=event).json() for event in events]
    for chunk in chunks[:-1]:
        assert chunk["usage"]["prompt_tokens"] == 3
        seen[chunk["choices"][0]["index"]].append(chunk["usage"]["completion_tokens"])
    for counts in seen.values():
        assert counts == sorted(counts)
        assert counts[-1] == 4
    assert chunks[-1]["usage"]["completion_tokens"] == 8
