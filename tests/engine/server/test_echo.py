from __future__ import annotations

import threading

import pytest

from paceline_engine.server.choices import Prompt
from paceline_engine.server.echo import LONG_PROMPT_TOKENS, echoed, read_out, token_offsets
from paceline_engine.server.opening import PromptScores, PromptView
from paceline_engine.tokenizer import IncrementalDecoder, Tokenizer, load_tokenizer
from paceline_engine.tokenizer.vocabulary import SpecialToken, Vocabulary

BYTES = load_tokenizer(None)


def with_bos() -> Tokenizer:
    table = (*(bytes([byte]) for byte in range(256)), b"<s>")
    vocabulary = Vocabulary(
        token_bytes=table,
        specials=(SpecialToken(text="<s>", token_id=256),),
        eos_token_ids=(),
        bos_token_id=256,
        adds_bos=True,
    )
    return Tokenizer(vocabulary, lambda text: list(text.encode()))


@pytest.mark.parametrize(
    ("text", "offsets"),
    [("ab", (0, 1)), ("aéb", (0, 1, 1, 2)), ("a<|im_end|>b", (0, 1, 11)), ("", ())],
)
def test_offsets_of_a_text(text: str, offsets: tuple[int, ...]) -> None:
    assert token_offsets(BYTES.encode(text), text, BYTES) == offsets


def test_a_begin_of_sequence_token_takes_no_place() -> None:
    tokenizer = with_bos()
    ids = tokenizer.encode("ab")
    assert ids == [256, 97, 98]
    assert token_offsets(ids, "ab", tokenizer) == (0, 0, 1)
    assert token_offsets(ids, "<s>ab", tokenizer) == (0, 3, 4)


def test_ids_are_echoed_with_their_special_tokens() -> None:
    assert echoed(Prompt(token_ids=(97, 256)), BYTES) == "a<|endoftext|>"
    assert echoed(Prompt(token_ids=(97,), text="given"), BYTES) == "given"


@pytest.mark.parametrize("tokens", [3, LONG_PROMPT_TOKENS + 1])
async def test_prompts_are_read_out_before_they_are_shown(tokens: int) -> None:
    """Long ones in a thread: the event loop has its turns meanwhile."""
    threads: set[int] = set()

    class Watched(Tokenizer):
        def incremental_decoder(self, *, skip_special: bool = True) -> IncrementalDecoder:
            threads.add(threading.get_ident())
            return super().incremental_decoder(skip_special=skip_special)

    tokenizer = Watched(BYTES.vocabulary, lambda text: list(text.encode()))
    (shown,) = await read_out([Prompt(token_ids=(97,) * tokens)], tokenizer, scored=True)
    assert (shown.text, shown.offsets) == ("a" * tokens, tuple(range(tokens)))
    assert (threading.get_ident() in threads) is (tokens <= LONG_PROMPT_TOKENS)
    threads.clear()
    view = PromptView(shown, tokenizer, echoes=True, scores=PromptScores())
    assert view.text == shown.text
    assert threads == set()
