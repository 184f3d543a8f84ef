"""Who waits for a turn says for whom, at once and again and again."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

from e2e.turn import turn


def test_who_waits_is_told_of_the_holder_until_it_ends(tmp_path: Path) -> None:
    said: list[str] = []
    reminded = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        if len(said) == 2:
            reminded.set()

    def wait() -> None:
        with turn(tmp_path / "lock", "second", say, remind_s=0.01):
            said.append("in")

    second = threading.Thread(target=wait)
    with turn(tmp_path / "lock", "its logs are in /l", said.append):
        second.start()
        assert reminded.wait(60)
        assert "in" not in said
    second.join(60)
    assert said[-1] == "in"
    pattern = rf"waiting for another to end, for \d+ s: process {os.getpid()}, since [\d:]+, "
    assert [line for line in said[:-1] if not re.match(pattern + "its logs are in /l", line)] == []


def test_a_free_turn_is_taken_without_a_word(tmp_path: Path) -> None:
    said: list[str] = []
    for _ in range(2):
        with turn(tmp_path / "lock", "n", said.append):
            assert f"process {os.getpid()}" in (tmp_path / "lock").read_text()
    assert said == []
    assert (tmp_path / "lock").read_text() == ""
