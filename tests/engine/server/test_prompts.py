"""Texts of many calls on their way to token ids."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from paceline_engine.server.prompts import LONG_TEXT_CHARS, encode_prompts

CALLS = 5


class Counting:
    """A tokenizer that waits for leave, and counts how many calls use it at a time."""

    vocab_size, longest_token_bytes = 256, 1

    def __init__(self) -> None:
        self.leave = threading.Event()
        self.began = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._running = 0
        self.most = 0

    def encode(self, text: str, *, add_special: bool) -> list[int]:
        with self._lock:
            self._running += 1
            self.most = max(self.most, self._running)
        self.began.release()
        assert self.leave.wait(10)
        with self._lock:
            self._running -= 1
        return [len(text) % 7, int(add_special)]


@pytest.mark.behaviour(
    "of all calls with long texts two are tokenised at a time, so that memory stays bounded",
    report="own finding: eight texts of 640 kB, tokenised side by side, took 620 MiB",
)
async def test_two_long_texts_at_a_time() -> None:
    tokenizer: Any = Counting()
    long = [
        asyncio.create_task(encode_prompts(["a" * LONG_TEXT_CHARS * 2], tokenizer, None))
        for _ in range(CALLS)
    ]
    async with asyncio.timeout(10):
        for _ in range(2):
            assert await asyncio.to_thread(tokenizer.began.acquire, timeout=5)
        tokenizer.leave.set()
        answers = await asyncio.gather(*long)
    assert [prompt.token_ids for (prompt,) in answers] == [(LONG_TEXT_CHARS * 2 % 7, 1)] * CALLS
    assert tokenizer.most == 2
