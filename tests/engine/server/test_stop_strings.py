from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_engine.server.api import LONG_STOP_CHARS, stop_automaton
from paceline_engine.server.stop_automaton import StopAutomaton
from paceline_engine.server.stop_strings import StopFilter


def run(
    pieces: list[str], stops: list[str], *, includes: bool = False, least: int = 0
) -> tuple[list[str], str | None]:
    stop_filter = StopFilter(StopAutomaton(stops), includes_stop=includes)
    shown = [
        stop_filter.push(piece, may_match=count > least) for count, piece in enumerate(pieces, 1)
    ]
    return [*shown, stop_filter.flush()], stop_filter.match


@pytest.mark.behaviour(
    "a stop string spread over tokens is never begun in the stream",
    report="vllm #3574, #2577, TGI #1254: its beginning was streamed before the match",
)
@pytest.mark.behaviour(
    "text is held back at token boundaries, never within one token's text",
    report="vllm PR #45636: hold-back by characters cut a marker between two chunks",
)
@pytest.mark.parametrize(
    ("pieces", "stops", "shown"),
    [
        (["ab", "c"], [], ["ab", "c", ""]),
        (["ab", "cd"], ["x"], ["ab", "cd", ""]),
        (["ab", "cd", "ef"], ["de"], ["ab", "", "c", ""]),
        (["a", "END", "b"], ["END"], ["a", "", "", ""]),
        (["a", "EN", "X"], ["END"], ["a", "", "ENX", ""]),
        (["a", "EN"], ["END"], ["a", "", "EN"]),
        (["one two"], ["two", "one"], ["", ""]),
        (["aXbY"], ["Y", "X"], ["a", ""]),
    ],
)
def test_pieces(pieces: list[str], stops: list[str], shown: list[str]) -> None:
    assert run(pieces, stops)[0] == shown


@pytest.mark.parametrize(
    ("pieces", "stops", "includes", "least", "text", "match"),
    [
        (["aXbY"], ["Y", "X"], False, 0, "a", "X"),
        (["ab", "cd", "ef"], ["de"], True, 0, "abcde", "de"),
        (["abcd"], ["bcd", "bc"], True, 0, "abc", "bc"),  # completed first
        (["X", "aX", "b"], ["X"], False, 1, "Xa", "X"),  # the first one came too early
        (["aX", "b"], ["X"], False, 1, "aXb", None),
        (["aX", "Yb"], ["XY"], False, 1, "a", "XY"),  # begun early, completed late
        (["a", "b"], ["b"], False, 5, "ab", None),
    ],
)
def test_matches(
    pieces: list[str],
    stops: list[str],
    includes: bool,
    least: int,
    text: str,
    match: str | None,
) -> None:
    shown, found = run(pieces, stops, includes=includes, least=least)
    assert ("".join(shown), found) == (text, match)


texts = st.lists(st.text("ab", max_size=4), max_size=12)
stop_lists = st.lists(st.text("ab", min_size=1, max_size=4), max_size=3)


@given(texts, stop_lists, st.booleans())
def test_shown_is_the_text_before_the_first_completed_stop(
    pieces: list[str], stops: list[str], includes: bool
) -> None:
    """Whatever the boundaries: output ends at the stop string that completes first."""
    shown, match = run(pieces, stops, includes=includes)
    text = "".join(pieces)
    assert (match is not None) is any(stop in text for stop in stops)
    if match is None:
        assert "".join(shown) == text
        return
    seen = ""
    for piece in pieces:
        seen += piece
        found = [seen.index(stop) for stop in stops if stop in seen]
        if found:
            assert "".join(shown) == text[: min(found) + (len(match) if includes else 0)]
            return


@given(texts, stop_lists)
def test_nothing_shown_is_ever_taken_back(pieces: list[str], stops: list[str]) -> None:
    stop_filter = StopFilter(StopAutomaton(stops))
    shown = ""
    for piece in pieces:
        shown += stop_filter.push(piece)
        assert not any(stop in shown for stop in stops)
        assert "".join(pieces).startswith(shown)


def open_from(text: str, stops: list[str]) -> int:
    """Where the longest tail of `text` begins that may still become a stop string."""
    tails = [at for at in range(len(text)) for stop in stops if is_begun(stop, text[at:])]
    return min(tails, default=len(text))


def is_begun(stop: str, tail: str) -> bool:
    return stop.startswith(tail) and stop != tail


def simply(
    pieces: list[str], stops: list[str], least: int, *, includes: bool
) -> tuple[list[str], str | None]:
    """What `run` gives, looked up in the whole text that is held, after each piece anew."""
    shown, held = [], list[str]()
    for count, piece in enumerate(pieces, 1):
        before = len("".join(held))
        held.append(piece)
        text = "".join(held)
        ends = range(before + 1, len(text) + 1)
        found = [
            (end - len(stop), len(stop), stop)
            for end in ends
            for stop in stops
            if text[:end].endswith(stop)
        ]
        if found and count > least:
            start, length, match = min(found)
            shown.append(text[: start + (length if includes else 0)])
            return [*shown, *[""] * (len(pieces) - count + 1)], match
        safe, now = open_from(text, stops), ""
        while held and len(now) + len(held[0]) <= safe:
            now += held.pop(0)
        shown.append(now)
    return [*shown, "".join(held)], None


@given(
    st.lists(st.text("ab", max_size=5), max_size=14),
    st.lists(st.text("ab", min_size=1, max_size=6), max_size=4),
    st.integers(0, 6),
    st.booleans(),
)
def test_the_automaton_finds_what_looking_anew_finds(
    pieces: list[str], stops: list[str], least: int, includes: bool
) -> None:
    expected = simply(pieces, stops, least, includes=includes)
    assert run(pieces, stops, includes=includes, least=least) == expected


@pytest.mark.behaviour(
    "a character of the output costs the same however many and long the stop strings are",
    report="superlinear work: a long stop string that nearly matches slows every token",
)
@pytest.mark.parametrize("length", [8, 64, 511])
def test_work_does_not_grow_with_the_stop_strings(length: int) -> None:
    stop_filter = StopFilter(StopAutomaton([*["a" * length + end for end in "bcdefgh"], "q"]))
    lines = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        for _ in range(500):
            stop_filter.push("aaaz")
            stop_filter.push("aaaa")
    finally:
        sys.settrace(before)
    assert lines < 30 * 4000


@pytest.mark.parametrize("length", [10, LONG_STOP_CHARS])
async def test_long_stop_strings_are_made_ready_in_a_thread(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    link = StopAutomaton._link

    def noted(automaton: StopAutomaton) -> None:
        threads.append(threading.get_ident())
        link(automaton)

    monkeypatch.setattr(StopAutomaton, "_link", noted)
    automaton = await stop_automaton(["a" * length, "b"])
    assert automaton.step(automaton.start, "b").stop == "b"
    assert (threads == [threading.get_ident()]) is (length < LONG_STOP_CHARS)
