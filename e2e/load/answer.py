"""Reads answers: events of a stream as their bytes come, and whole bodies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


class AnswerError(Exception):
    """The answer is not one that the OpenAI API gives; the message is one line."""


@dataclass(slots=True)
class StreamedAnswer:
    """A streamed answer so far. Feed it bytes; it keeps figures, not text.

    Attributes:
        texts: Pieces with text seen.
        finish_reason: Why the generation ended, None before.
        done: Whether the closing mark came.
        usage: The server's own counts, if it sent them.
    """

    texts: int = 0
    finish_reason: str | None = None
    done: bool = False
    usage: Mapping[str, int] = field(default_factory=dict)
    _rest: bytes = b""

    def feed(self, data: bytes) -> int:
        """Adds bytes in pieces of any size; returns how many pieces of text they complete.

        Raises:
            AnswerError: The stream carries an error or is malformed.
        """
        before = self.texts
        for payload in self._payloads(data):
            if payload == b"[DONE]":
                self.done = True
            else:
                self._take(_object(payload))
        return self.texts - before

    def _payloads(self, data: bytes) -> Iterator[bytes]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].strip()

    def _take(self, event: Mapping[str, Any]) -> None:
        for choice in event.get("choices") or ():
            text = choice.get("text") or (choice.get("delta") or {}).get("content")
            self.texts += bool(text)
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
        self.usage = event.get("usage") or self.usage


def read_whole(body: bytes) -> StreamedAnswer:
    """An answer that came in one piece, in the same figures.

    Raises:
        AnswerError: It is an error or malformed.
    """
    answer = StreamedAnswer(done=True)
    content = _object(body)
    for choice in content.get("choices") or ():
        answer.finish_reason = choice.get("finish_reason")
    answer.usage = content.get("usage") or {}
    return answer


def fault(answer: StreamedAnswer, max_tokens: int, *, ignore_eos: bool) -> str | None:
    """Why an answer is not full, or None where it is.

    With `ignore_eos` only the token limit may end it, so fewer tokens are a loss.
    """
    if answer.finish_reason is None:
        return "the answer ended without a finish reason"
    if not answer.done:
        return "the stream ended without [DONE]"
    tokens = answer.usage.get("completion_tokens", max_tokens)
    if ignore_eos and tokens != max_tokens:
        return f"{tokens} of {max_tokens} tokens came (finish reason {answer.finish_reason})"
    return None


def error_line(body: bytes) -> str:
    """The message of an error body, or the body's start, as one line of up to 200 characters."""
    try:
        text = str(json.loads(body)["error"]["message"])
    except (ValueError, LookupError, TypeError):
        text = body.decode(errors="replace")
    return " ".join(text.split())[:200]


def _object(payload: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(payload)
    except ValueError:
        raise AnswerError(f"not JSON: {error_line(payload)}") from None
    if not isinstance(value, dict):
        raise AnswerError(f"not a JSON object: {error_line(payload)}")
    if value.get("error"):
        raise AnswerError(f"error in the answer: {error_line(payload)}")
    return value
