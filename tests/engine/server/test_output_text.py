from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_engine.message import TokenLogprobs
from paceline_engine.server.draft import Draft
from paceline_engine.server.output_text import OutputText
from paceline_engine.server.piece import Piece, ScoredToken
from paceline_engine.server.stop_automaton import StopAutomaton
from paceline_engine.server.stop_strings import StopFilter
from paceline_engine.tokenizer import load_tokenizer

TOKENIZER = load_tokenizer(None)
EURO = [0xE2, 0x82, 0xAC]


def scores(token_id: int) -> TokenLogprobs:
    return TokenLogprobs(token_id, -0.5, 1)


def run(
    token_ids: list[int], stops: list[str], *, includes: bool = False, least: int = 0
) -> tuple[list[Piece], OutputText]:
    output = OutputText(
        TOKENIZER.incremental_decoder(),
        StopFilter(StopAutomaton(stops), includes_stop=includes),
        min_tokens=least,
    )
    pieces: list[Piece] = []
    for token_id in token_ids:
        output.push(token_id, scores(token_id))
        if output.stop is not None:
            break
        pieces.append(output.take())
    else:
        output.finish()
    return [*pieces, output.take_all()], output


def join(pieces: list[Piece]) -> Piece:
    draft = Draft()
    for piece in pieces:
        draft.add(piece)
    return draft.whole()


def texts(pieces: list[Piece]) -> list[tuple[str, tuple[int, ...]]]:
    return [(piece.text, piece.token_ids) for piece in pieces if piece.text or piece.token_ids]


@pytest.mark.behaviour(
    "a character spread over tokens comes in one piece, with all its tokens",
    report="llama.cpp #4036: multi-byte characters came out as broken UTF-8 in streams",
)
def test_characters_come_whole() -> None:
    pieces, _ = run([97, *EURO, 98], [])
    assert texts(pieces) == [("a", (97,)), ("€", tuple(EURO)), ("b", (98,))]
    assert [each.offset for each in join(pieces).scored] == [0, 1, 1, 1, 2]


def test_half_a_character_at_the_end_is_marked_there() -> None:
    pieces, _ = run([97, *EURO[:2]], [])
    assert texts(pieces) == [("a", (97,)), ("\ufffd", (0xE2, 0x82))]


@pytest.mark.behaviour(
    "a stop string trims text, ids, log-probabilities and usage at the same token",
    report="vllm PR #47616: text was trimmed, later ids and logprobs were left",
)
def test_a_stop_string_trims_everything_at_one_token() -> None:
    pieces, output = run(list(b"abcdefg"), ["cde"])
    whole = join(pieces)
    assert whole.text == "ab"
    assert whole.token_ids == tuple(b"abcde")
    assert [each.scores.token_id for each in whole.scored] == list(b"abcde")
    assert output.num_tokens == 5
    assert output.stop == "cde"


def test_held_tokens_come_with_their_text() -> None:
    pieces, _ = run(list(b"abcdx"), ["cde"])
    assert texts(pieces) == [("a", (97,)), ("b", (98,)), ("cdx", (99, 100, 120))]


def test_a_shown_stop_token_adds_text_alone() -> None:
    output = OutputText(TOKENIZER.incremental_decoder(), StopFilter(StopAutomaton(["z"])), offset=4)
    output.push(97, scores(97))
    output.show(98)
    output.finish()
    piece = output.take_all()
    assert (piece.text, piece.token_ids) == ("ab", (97,))
    assert piece.scored == (ScoredToken(scores(97), 4),)


token_lists = st.lists(st.sampled_from([*b"ab", *EURO, 0xFF, 256]), max_size=14)
stop_lists = st.lists(st.text("ab€", min_size=1, max_size=3), max_size=2)


@given(token_lists, stop_lists, st.booleans(), st.integers(0, 4))
def test_pieces_add_up_to_the_whole(
    token_ids: list[int], stops: list[str], includes: bool, least: int
) -> None:
    pieces, output = run(token_ids, stops, includes=includes, least=least)
    whole = join(pieces)
    counted = token_ids[: output.num_tokens]
    assert whole.token_ids == tuple(counted)
    assert [each.scores.token_id for each in whole.scored] == counted
    if output.stop is None:
        assert counted == token_ids
        assert whole.text == TOKENIZER.decode(token_ids)
    else:
        text = TOKENIZER.decode(counted)
        cut = len(whole.text) - (len(output.stop) if includes else 0)
        assert text.startswith(whole.text)
        assert text[cut:].startswith(output.stop)
        assert output.num_tokens > least
    for count, each in enumerate(whole.scored):
        assert each.offset <= len(TOKENIZER.decode(counted[:count]))


@given(token_lists, stop_lists)
def test_tokens_never_come_later_than_their_text(token_ids: list[int], stops: list[str]) -> None:
    pieces, output = run(token_ids, stops)
    shown, come = 0, 0
    for piece in pieces[:-1]:
        shown += len(piece.text)
        come += len(piece.token_ids)
        assert len(TOKENIZER.decode(token_ids[:come])) >= shown
    assert output.num_tokens <= len(token_ids)
