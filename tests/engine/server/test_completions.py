"""/v1/completions through the official client, against a started server."""

from __future__ import annotations

from typing import Any

import pytest
from openai import OpenAI

from paceline_engine.tokenizer.byte_vocabulary import byte_tokenizer
from tests.engine.server.conftest import MODEL
from tests.support.engine_server import EngineServer


@pytest.mark.parametrize(
    ("prompt", "choices", "prompt_tokens"),
    [
        ("hello", 1, 5),
        (["hello", "you"], 2, 8),
        ([104, 105], 1, 2),
        ([[104, 105], [33], [34]], 3, 4),
        ("é", 1, 2),
    ],
)
def test_every_form_of_prompt(
    client: OpenAI, prompt: str | list[int], choices: int, prompt_tokens: int
) -> None:
    answer = client.completions.create(model=MODEL, prompt=prompt, max_tokens=3)
    assert [choice.index for choice in answer.choices] == list(range(choices))
    assert {choice.finish_reason for choice in answer.choices} == {"length"}
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == prompt_tokens
    assert answer.usage.completion_tokens == 3 * choices
    assert answer.usage.total_tokens == prompt_tokens + 3 * choices
    assert answer.model == MODEL
    assert answer.id.startswith("cmpl-")


def test_default_is_sixteen_tokens(client: OpenAI) -> None:
    answer = client.completions.create(model=MODEL, prompt="x")
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 16


@pytest.mark.parametrize("prompt", ["stream", ["one", "two", "three"]])
def test_stream_says_the_same_as_the_whole(client: OpenAI, prompt: str | list[str]) -> None:
    asked = {"model": MODEL, "prompt": prompt, "max_tokens": 12, "seed": 7}
    whole = client.completions.create(**asked)  # type: ignore[call-overload]
    texts = [""] * len(whole.choices)
    reasons: list[str | None] = [None] * len(whole.choices)
    usages = []
    stream = client.completions.create(**asked, stream=True, stream_options={"include_usage": True})  # type: ignore[call-overload]
    for chunk in stream:
        usages.append(chunk.usage)
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            reasons[choice.index] = choice.finish_reason
    assert texts == [choice.text for choice in whole.choices]
    assert reasons == ["length"] * len(texts)
    assert usages[-1] == whole.usage
    assert set(usages[:-1]) == {None}


def test_seed_decides_the_text_whatever_runs_beside(client: OpenAI) -> None:
    def text(seed: int, prompt: str | list[str]) -> str:
        answer = client.completions.create(model=MODEL, prompt=prompt, seed=seed, max_tokens=8)
        return answer.choices[0].text

    assert text(1, "abc") == text(1, ["abc", "other", "more"])
    assert text(1, "abc") != text(2, "abc")


def test_without_seed_each_answer_differs(client: OpenAI) -> None:
    texts = {
        client.completions.create(model=MODEL, prompt="abc", max_tokens=8).choices[0].text
        for _ in range(3)
    }
    assert len(texts) == 3


@pytest.mark.parametrize("stream", [False, True])
def test_stop_string_cuts_before_it(client: OpenAI, stream: bool) -> None:
    asked = {"model": MODEL, "prompt": "abc", "seed": 3, "max_tokens": 24}
    whole = client.completions.create(**asked).choices[0].text  # type: ignore[call-overload]
    stop = whole[9:13]
    answer = client.completions.create(**asked, stop=[stop], stream=stream)  # type: ignore[call-overload]
    choices = [chunk.choices[0] for chunk in answer] if stream else answer.choices
    assert "".join(choice.text for choice in choices) == whole[: whole.index(stop)]
    assert choices[-1].finish_reason == "stop"


def test_stop_token_ends_without_being_shown(client: OpenAI) -> None:
    asked = {"model": MODEL, "prompt": "abc", "seed": 5, "max_tokens": 24}
    whole = client.completions.create(**asked).choices[0].text  # type: ignore[call-overload]
    ids = {text: i for i, text in enumerate(byte_tokenizer().vocabulary.token_bytes)}
    word = next(f" {each}" for each in whole.split() if f" {each}".encode() in ids)
    answer = client.completions.create(**asked, extra_body={"stop_token_ids": [ids[word.encode()]]})  # type: ignore[call-overload]
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].text == whole[: whole.index(word)]


def test_output_ends_where_the_context_ends(client: OpenAI) -> None:
    answer = client.completions.create(model=MODEL, prompt=[65] * 500, max_tokens=100)
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 12
    assert answer.choices[0].finish_reason == "length"


def test_ignore_eos_and_sampling_fields_are_taken(client: OpenAI) -> None:
    answer = client.completions.create(
        model=MODEL,
        prompt="abc",
        temperature=0.5,
        top_p=0.9,
        max_tokens=2,
        n=1,
        user="somebody",
        extra_body={"ignore_eos": True, "top_k": -1},
    )
    assert answer.choices[0].finish_reason == "length"


def test_a_stop_token_is_not_shown_but_counted(client: OpenAI, server: EngineServer) -> None:
    asked: dict[str, Any] = {"model": MODEL, "prompt": "abc", "seed": 11, "max_tokens": 6}
    extra = {"return_token_ids": True}
    plain = client.completions.create(**asked, extra_body=extra)
    assert plain.usage is not None
    assert plain.usage.completion_tokens == 6
    ids = (plain.choices[0].model_extra or {})["token_ids"]
    before = server.value("generation_tokens_total")
    ended = client.completions.create(**asked, extra_body={**extra, "stop_token_ids": [ids[3]]})
    shown = (ended.choices[0].model_extra or {})["token_ids"]
    assert shown == ids[: ids.index(ids[3])]
    assert ended.usage is not None
    assert ended.usage.completion_tokens == len(shown) + 1
    assert server.value("generation_tokens_total") - before == len(shown) + 1
