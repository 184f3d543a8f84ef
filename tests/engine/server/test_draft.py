"""A whole answer's choice is kept in little memory, and nothing of it is lost."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_engine.message import TokenLogprobs
from paceline_engine.server.draft import Draft
from paceline_engine.server.piece import Opening, Piece, ScoredToken

LOGPROBS = st.floats(max_value=0, min_value=-9999)
IDS = st.integers(0, 2**31 - 1)
SCORES = st.builds(
    TokenLogprobs,
    IDS,
    LOGPROBS,
    st.integers(1, 2**31),
    st.lists(st.tuples(IDS, LOGPROBS), max_size=20).map(tuple),
)
PIECES = st.builds(
    Piece,
    text=st.text(),
    token_ids=st.lists(IDS, max_size=3).map(tuple),
    scored=st.lists(st.builds(ScoredToken, SCORES, st.integers(0, 2**40)), max_size=3).map(tuple),
)


@given(st.lists(PIECES, max_size=5), st.text(alphabet="a\r\n\u2028€"))
def test_pieces_add_up(pieces: list[Piece], end: str) -> None:
    opening, draft = Opening(token_ids=(1, 2)), Draft()
    last = Piece(text=end, finish_reason="stop", stop_reason="x")
    given_pieces = [Piece(opening=opening), *pieces, last]
    for piece in given_pieces:
        draft.add(piece)
    whole = draft.whole()
    assert whole.text == "".join(piece.text for piece in given_pieces)
    assert whole.token_ids == tuple(i for piece in given_pieces for i in piece.token_ids)
    expected = [scored for piece in given_pieces for scored in piece.scored]
    assert list(whole.scored) == expected
    assert list(whole.scored) == expected  # each time anew
    assert len(whole.scored) == len(expected)
    assert whole.opening is opening
    assert (whole.finish_reason, whole.stop_reason) == ("stop", "x")
    assert draft.last is last


@pytest.mark.behaviour(
    "a whole answer's log-probabilities are kept as bare numbers until it is written",
    report="own finding: one call with them took 3.8 KB a token, 0.7 GB in all, past every plan",
)
def test_a_token_with_all_its_scores_takes_little() -> None:
    tokens, best = 3000, 20
    tracemalloc.start()
    try:
        draft = Draft()
        for at in range(tokens):
            top = tuple((at * best + k, -float(k) - at) for k in range(best))
            scores = TokenLogprobs(at, -1.0 - at, 1, top)
            draft.add(Piece(text="a", token_ids=(at,), scored=(ScoredToken(scores, at),)))
        del top, scores
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(draft.whole().scored) == tokens
    assert held_bytes / tokens < 500  # 20 ids of 4 bytes and numbers of 8, and some room
