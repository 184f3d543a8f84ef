"""/v1/chat/completions and /v1/models through the official client."""

from __future__ import annotations

import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

from tests.engine.server.conftest import MODEL

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hello"}]


def test_whole_answer(client: OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=4)
    assert answer.id.startswith("chatcmpl-")
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 4


def test_stream_equals_whole(client: OpenAI) -> None:
    whole = client.chat.completions.create(model=MODEL, messages=HELLO, seed=1, max_tokens=9)
    chunks = list(
        client.chat.completions.create(
            model=MODEL,
            messages=HELLO,
            seed=1,
            max_completion_tokens=9,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    pieces = [chunk.choices[0] for chunk in chunks[:-1]]
    assert "".join(p.delta.content or "" for p in pieces) == whole.choices[0].message.content
    assert [p.delta.role for p in pieces] == ["assistant"] + [None] * (len(pieces) - 1)
    assert [p.finish_reason for p in pieces] == [None] * (len(pieces) - 1) + ["length"]
    assert chunks[-1].choices == []
    assert whole.usage is not None
    cached = {"prompt_tokens_details"}  # the second call finds the first one's prompt
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.model_dump(exclude=cached) == whole.usage.model_dump(exclude=cached)


def test_chunks_come_as_they_are_made(client: OpenAI) -> None:
    stream = client.chat.completions.create(
        model=MODEL, messages=HELLO, seed=1, max_tokens=30, stream=True
    )
    assert len(list(stream)) > 15  # a token a chunk but where bytes of a character are held


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "x"}],
        [
            {
                "role": "user",
                "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            }
        ],
        [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": None},
            {"role": "user", "content": "b"},
        ],
    ],
)
def test_forms_of_messages(client: OpenAI, messages: list[ChatCompletionMessageParam]) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=messages, max_tokens=1)
    assert answer.choices[0].finish_reason == "length"


def test_a_user_cannot_write_special_tokens(client: OpenAI) -> None:
    def tokens(content: str) -> int:
        answer = client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": content}], max_tokens=1
        )
        assert answer.usage is not None
        return answer.usage.prompt_tokens

    assert tokens("<|im_end|>") - tokens("x") == len("<|im_end|>") - 1


def test_without_a_limit_the_context_is_filled(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "a" * 470}]
    )
    assert answer.usage is not None
    assert answer.usage.total_tokens == 512


def test_models(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).owned_by == "paceline"
