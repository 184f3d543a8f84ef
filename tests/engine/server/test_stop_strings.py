from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_engine.server.stop_strings import StopFilter


def run(
    pieces: list[str], stops: list[str], *, includes: bool = False, least: int = 0
) -> tuple[list[str], str | None]:
    stop_filter = StopFilter(stops, includes_stop=includes)
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
    stop_filter = StopFilter(stops)
    shown = ""
    for piece in pieces:
        shown += stop_filter.push(piece)
        assert not any(stop in shown for stop in stops)
        assert "".join(pieces).startswith(shown)
