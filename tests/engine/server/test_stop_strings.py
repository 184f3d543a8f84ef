from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_engine.server.stop_strings import StopFilter


def run(pieces: list[str], stops: list[str]) -> tuple[list[str], bool]:
    stop_filter = StopFilter(stops)
    shown = [stop_filter.push(piece) for piece in pieces]
    return [*shown, stop_filter.flush()], stop_filter.matched


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


texts = st.lists(st.text("ab", max_size=4), max_size=12)
stop_lists = st.lists(st.text("ab", min_size=1, max_size=4), max_size=3)


@given(texts, stop_lists)
def test_shown_is_the_text_before_the_first_completed_stop(
    pieces: list[str], stops: list[str]
) -> None:
    """Whatever the boundaries: output ends before the stop string that completes first."""
    shown, matched = run(pieces, stops)
    text = "".join(pieces)
    assert matched is any(stop in text for stop in stops)
    if not matched:
        assert "".join(shown) == text
        return
    seen = ""
    for piece in pieces:
        seen += piece
        found = [seen.index(stop) for stop in stops if stop in seen]
        if found:
            assert "".join(shown) == text[: min(found)]
            return


@given(texts, stop_lists)
def test_nothing_shown_is_ever_taken_back(pieces: list[str], stops: list[str]) -> None:
    stop_filter = StopFilter(stops)
    shown = ""
    for piece in pieces:
        shown += stop_filter.push(piece)
        assert not any(stop in shown for stop in stops)
        assert "".join(pieces).startswith(shown)
