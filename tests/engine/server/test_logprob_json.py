"""Log-probabilities are written in slices; a prompt's once, to be shown in every choice."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from typing_extensions import override

from paceline_engine.message import TokenLogprobs
from paceline_engine.server import logprob_json
from paceline_engine.server.answer_wire import Usage
from paceline_engine.server.logprob_json import (
    SLICE_PLACES,
    chat_array,
    drawn_columns,
    echoed_columns,
    prompt_array,
)
from paceline_engine.server.logprob_view import (
    chat_logprobs,
    drawn,
    echoed,
    prompt_logprobs,
    text_logprobs,
)
from paceline_engine.server.piece import Opening, Piece, ScoredToken
from paceline_engine.server.shape import ChatShape, CompletionShape, Head, Shape, View
from paceline_engine.server.token_texts import TokenTexts
from paceline_engine.tokenizer import load_tokenizer

USAGE = Usage(prompt_tokens=0, completion_tokens=0, total_tokens=0)
LENGTHS = [1, 2, SLICE_PLACES, SLICE_PLACES + 1, 3 * SLICE_PLACES]
OWN = (ScoredToken(TokenLogprobs(100, -1.0, 1, ((100, -1.0),)), 7),)


class Texts(TokenTexts):
    """Counts the tokens it is asked for."""

    def __init__(self) -> None:
        super().__init__(load_tokenizer(None))
        self.asked = 0

    @override
    def text(self, token_id: int) -> str:
        self.asked += 1
        return super().text(token_id)

    @override
    def key(self, token_id: int) -> str:
        self.asked += 1
        return super().key(token_id)


def opening(tokens: int) -> Opening:
    scores = [TokenLogprobs(97 + i % 3, -i / 8, i + 1, ((97, -0.5),)) for i in range(1, tokens)]
    return Opening(
        token_ids=(97,) * tokens, text="a" * tokens, offsets=tuple(range(tokens)),
        scores=tuple(scores),
    )  # fmt: skip


def plain(value: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


@pytest.mark.parametrize("tokens", LENGTHS)
@pytest.mark.parametrize("scored", [(), OWN])
async def test_slices_add_up_to_the_columns(tokens: int, scored: tuple[ScoredToken, ...]) -> None:
    texts, prompt = TokenTexts(load_tokenizer(None)), opening(tokens)
    columns = await echoed_columns(texts, 1, prompt)
    shown = columns.continued(text_logprobs(texts, 1, tuple(drawn(scored))))
    assert plain(shown) == plain(text_logprobs(texts, 1, [*echoed(prompt), *drawn(scored)]))
    array = await prompt_array(texts, 1, prompt)
    assert plain(array) == plain(prompt_logprobs(texts, 1, (None, *prompt.scores)))


@pytest.mark.behaviour(
    "a prompt's log-probabilities are written once, whatever the number of choices, and other "
    "calls get their turns meanwhile",
    report="log-probabilities of long prompts hold up every stream of the server",
)
async def test_choices_share_what_is_written_of_their_prompt() -> None:
    async def asked(choices: int) -> tuple[int, int, Any]:
        texts = Texts()
        view = View(texts=texts, logprobs=1, prompt_logprobs=1)
        shape = CompletionShape(Head(answer_id="i", created=0, model="m"), view)
        prompt, turns = opening(5 * SLICE_PLACES), itertools.count()

        async def other() -> None:
            while True:
                next(turns)
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        whole = await shape.whole([Piece(opening=prompt)] * choices, USAGE)
        task.cancel()
        return texts.asked, next(turns), msgspec.json.decode(whole)

    once, turns, single = await asked(1)
    often, more_turns, many = await asked(50)
    assert once == often
    assert turns >= 10
    assert more_turns >= turns + 49
    for choice in many["choices"]:
        assert {**choice, "index": 0} == single["choices"][0]


TOP = 3


def answer(tokens: int) -> Piece:
    """A long one, with the best tokens at each place."""
    scored = [
        ScoredToken(TokenLogprobs(97 + i % 3, -i / 8, 1, ((97, -0.5), (98, -1.0), (99, -2.0))), i)
        for i in range(tokens)
    ]
    return Piece(text="a" * tokens, scored=tuple(scored), finish_reason="length")


def shapes(texts: TokenTexts) -> list[Shape]:
    view, head = View(texts=texts, logprobs=TOP), Head(answer_id="i", created=0, model="m")
    return [CompletionShape(head, view), ChatShape(head, view)]


@pytest.mark.behaviour(
    "an answer of any length with log-probabilities is written in slices, so that other streams "
    "wait for no more than one slice",
    report="own finding: a long answer with its best tokens was encoded in one go",
)
@pytest.mark.parametrize("which", [0, 1], ids=["completion", "chat"])
@pytest.mark.parametrize("streamed", [False, True])
async def test_another_stream_waits_for_a_slice_at_most(which: int, streamed: bool) -> None:
    texts, work = Texts(), list[int]()
    shape = shapes(texts)[which]

    async def other() -> None:
        while True:
            work.append(texts.asked)
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await asyncio.sleep(0)
    long = answer(40 * SLICE_PLACES)
    if streamed:
        await shape.chunk(0, long, is_first=True, usage=None)
    else:
        await shape.whole([long, long], USAGE)
    work.append(texts.asked)
    task.cancel()
    assert texts.asked >= 40 * SLICE_PLACES
    gaps = [later - earlier for earlier, later in itertools.pairwise(work)]
    assert max(gaps) <= SLICE_PLACES * (2 + TOP)  # its own text, twice, and those of the best


@pytest.mark.parametrize("tokens", LENGTHS)
async def test_slices_add_up_to_the_whole_answer(tokens: int) -> None:
    texts, long = TokenTexts(load_tokenizer(None)), answer(tokens)
    columns = await drawn_columns(texts, TOP, long.scored)
    assert plain(columns) == plain(text_logprobs(texts, TOP, tuple(drawn(long.scored))))
    array = await chat_array(texts, TOP, long.scored)
    assert plain(array) == plain(chat_logprobs(texts, TOP, long.scored))
    echo = await echoed_columns(texts, TOP, opening(tokens))
    whole = text_logprobs(texts, TOP, [*echoed(opening(tokens)), *drawn(long.scored)])
    assert plain(echo.continued(columns)) == plain(whole)


@pytest.mark.parametrize("long_bytes", [1, 1 << 30])
async def test_long_arrays_are_joined_in_a_thread(
    long_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[object] = []

    async def noted(join: Callable[[], Raw]) -> Raw:
        threads.append(join)
        return join()

    monkeypatch.setattr(logprob_json, "LONG_BYTES", long_bytes)
    monkeypatch.setattr(asyncio, "to_thread", noted)
    texts = TokenTexts(load_tokenizer(None))
    scored = [ScoredToken(TokenLogprobs(97, -1.0, 1), at) for at in range(3 * SLICE_PLACES)]
    columns = await drawn_columns(texts, TOP, scored)
    assert plain(columns) == plain(text_logprobs(texts, TOP, [*drawn(scored)]))
    assert len(threads) == (4 if long_bytes == 1 else 0)
