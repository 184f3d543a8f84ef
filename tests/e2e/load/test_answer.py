from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.load.answer import AnswerError, StreamedAnswer, error_line, fault, read_whole


def line(**fields: Any) -> bytes:
    return b"data: " + json.dumps(fields, ensure_ascii=False).encode() + b"\r\n\r\n"


def chat(text: str | None, finish: str | None = None) -> bytes:
    return line(choices=[{"index": 0, "delta": {"content": text}, "finish_reason": finish}])


STREAM = (
    b": a comment\n\n"
    + line(choices=[{"index": 0, "delta": {"role": "assistant", "content": ""}}])
    + chat("é")
    + chat(None)
    + chat("\n\ndata: x")
    + line(choices=[{"index": 0, "text": "of a completion", "finish_reason": None}])
    + chat("", "length")
    + line(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 3})
    + b"data: [DONE]\n\n"
)


@given(st.lists(st.integers(0, len(STREAM))))
def test_pieces_of_any_size_give_the_same_answer(cuts: list[int]) -> None:
    bounds = [0, *sorted(cuts), len(STREAM)]
    answer = StreamedAnswer()
    counts = [answer.feed(STREAM[a:b]) for a, b in itertools.pairwise(bounds)]
    assert sum(counts) == answer.texts == 3
    assert (answer.finish_reason, answer.done) == ("length", True)
    assert answer.usage == {"prompt_tokens": 3, "completion_tokens": 3}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"data: {\n", "not JSON: {"),
        (b"data: [1]\n", "not a JSON object: [1]"),
        (line(error={"message": "no\nmore"}), "error in the answer: no more"),
        (line(error="x"), 'error in the answer: {"error": "x"}'),
    ],
)
def test_malformed_events_are_errors(data: bytes, message: str) -> None:
    with pytest.raises(AnswerError) as raised:
        StreamedAnswer().feed(data)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("answer", "ignore_eos", "reason"),
    [
        (StreamedAnswer(finish_reason="length", done=True), True, None),
        (StreamedAnswer(done=True), True, "the answer ended without a finish reason"),
        (StreamedAnswer(finish_reason="stop"), True, "the stream ended without [DONE]"),
        (
            StreamedAnswer(finish_reason="stop", done=True, usage={"completion_tokens": 7}),
            True,
            "7 of 8 tokens came (finish reason stop)",
        ),
        (
            StreamedAnswer(finish_reason="stop", done=True, usage={"completion_tokens": 7}),
            False,
            None,
        ),
    ],
)
def test_faults(answer: StreamedAnswer, ignore_eos: bool, reason: str | None) -> None:
    assert fault(answer, 8, ignore_eos=ignore_eos) == reason


def test_whole_answers() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2}
    body = json.dumps({"choices": [{"finish_reason": "stop"}], "usage": usage}).encode()
    answer = read_whole(body)
    assert (answer.finish_reason, answer.done, answer.usage) == ("stop", True, usage)


def test_error_lines_are_short_and_single() -> None:
    assert error_line(b"x \n" * 500) == ("x " * 100)
    assert error_line(b"\xff") == "\ufffd"
