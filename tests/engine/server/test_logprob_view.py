from __future__ import annotations

import pytest

from paceline_engine.message import TokenLogprobs
from paceline_engine.server.answer_wire import ChatLogprob, PromptLogprob
from paceline_engine.server.logprob_view import (
    chat_logprobs,
    drawn,
    echoed,
    prompt_logprobs,
    text_logprobs,
)
from paceline_engine.server.piece import Opening, Piece, ScoredToken, best, mean_logprob
from paceline_engine.server.token_texts import TokenTexts
from paceline_engine.tokenizer import load_tokenizer

TEXTS = TokenTexts(load_tokenizer(None))
A = TokenLogprobs(97, -0.25, 1, ((97, -0.25), (98, -2.0), (0xE2, -3.0)))
RARE = TokenLogprobs(0xE2, -9999.0, 7, ((97, -0.25), (98, -2.0), (99, -2.5)))


def scored(*tokens: TokenLogprobs) -> tuple[ScoredToken, ...]:
    return tuple(ScoredToken(each, offset) for offset, each in enumerate(tokens))


def test_completion_columns() -> None:
    shown = text_logprobs(TEXTS, 2, tuple(drawn(scored(A, RARE))))
    assert shown.tokens == ("a", "bytes:\\xe2")
    assert shown.token_logprobs == (-0.25, -9999.0)
    assert shown.top_logprobs == (
        {"a": -0.25, "b": -2.0},
        {"a": -0.25, "b": -2.0, "bytes:\\xe2": -9999.0},
    )
    assert shown.text_offset == (0, 1)


@pytest.mark.parametrize(("top", "names"), [(0, {"a"}), (1, {"a"}), (3, {"a", "b", "bytes:\\xe2"})])
def test_the_token_itself_is_always_shown(top: int, names: set[str]) -> None:
    shown = text_logprobs(TEXTS, top, tuple(drawn(scored(A))))
    assert set(shown.top_logprobs[0] or {}) == names


def test_the_first_token_of_an_echoed_prompt_has_none() -> None:
    opening = Opening(token_ids=(98, 97), text="ba", offsets=(0, 1), scores=(A,))
    shown = text_logprobs(TEXTS, 1, tuple(echoed(opening)))
    assert shown.tokens == ("b", "a")
    assert shown.token_logprobs == (None, -0.25)
    assert shown.top_logprobs[0] is None


def test_chat_content_has_the_real_bytes_and_the_best_by_rank() -> None:
    content = chat_logprobs(TEXTS, 2, scored(RARE)).content
    assert (content[0].token, content[0].bytes) == ("\ufffd", (0xE2,))
    assert content[0].top_logprobs == (
        ChatLogprob(token="a", logprob=-0.25, bytes=(97,)),
        ChatLogprob(token="b", logprob=-2.0, bytes=(98,)),
    )


def test_prompt_logprobs_as_vllm() -> None:
    shown = prompt_logprobs(TEXTS, 1, (None, RARE))
    assert shown == (
        None,
        {
            "97": PromptLogprob(logprob=-0.25, rank=1, decoded_token="a"),
            "226": PromptLogprob(logprob=-9999.0, rank=7, decoded_token="\ufffd"),
        },
    )


def test_the_best_of_many_have_the_highest_mean() -> None:
    low, high, empty = Piece(scored=scored(A, RARE)), Piece(scored=scored(A)), Piece()
    assert mean_logprob(low) == pytest.approx(-4999.625)
    assert best([low, empty, high], 2) == [high, low]
