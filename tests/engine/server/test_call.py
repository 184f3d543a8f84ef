"""What a call submits to the engine, and what it makes of a script of outputs."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from paceline_engine.message import AddRequest, Fork, TokenLogprobs, TokenOutput
from paceline_engine.request import CacheScope, Fault, FinishReason, Request, Tier
from paceline_engine.server.admission import Admission
from paceline_engine.server.call import Call
from paceline_engine.server.caller import Caller
from paceline_engine.server.choices import Prompt
from paceline_engine.server.draft import Draft
from paceline_engine.server.errors import ApiError, InternalError
from paceline_engine.server.generation import AbandonedError
from paceline_engine.server.metric_families import RequestMetrics
from paceline_engine.server.piece import Piece
from paceline_engine.server.request_meter import Metering
from paceline_engine.server.request_record import RequestRecord
from paceline_engine.server.settings import ServerSettings
from paceline_engine.server.slo import SloBoard
from paceline_engine.server.wire import CompletionRequest
from paceline_engine.tokenizer import load_tokenizer

CALLER = Caller(
    request_id="r", cache_scope=CacheScope(tenant="t", scope="s", salt="p"), deadline_s=1.5
)
Script = Callable[[Request], list[TokenOutput]]


def scores(token_id: int, logprob: float = -1.0) -> TokenLogprobs:
    return TokenLogprobs(token_id, logprob, 1)


class Engine:
    """Answers each request with its script, a turn of the event loop apart."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[Request] = []
        self.aborted: set[int] = set()
        self.metrics = RequestMetrics("m")
        self.admission = Admission(100, 1000, clock=lambda: 0.0)
        self.records: list[RequestRecord] = []
        self.seeds = [1] * 10
        self.request_ids: Iterator[int] = itertools.count()

    def record(self, record: RequestRecord) -> None:
        self.records.append(record)

    def draw_seed(self) -> int:
        return self.seeds.pop()

    async def _outputs(self, request: Request) -> AsyncIterator[TokenOutput]:
        for output in self.script(request):
            await asyncio.sleep(0)
            yield output

    def submit(
        self, request: Request, forks: Sequence[Fork] = ()
    ) -> list[AsyncIterator[TokenOutput]]:
        family = list(AddRequest(request, tuple(forks)).requests())
        self.requests += family
        return [self._outputs(each) for each in family]

    def abort(self, *request_ids: int) -> None:
        self.aborted.update(request_ids)


def call_of(engine: Engine, *prompts: tuple[int, ...], **fields: Any) -> Call:
    service: Any = SimpleNamespace(
        client=engine,
        admission=engine.admission,
        tokenizer=load_tokenizer(None),
        config=SimpleNamespace(max_request_tokens=100),
        settings=ServerSettings(model_name="m"),
        request_ids=engine.request_ids,
        draw_seed=engine.draw_seed,
        clock=lambda: 0.0,
        check_open=lambda: None,
        metering=Metering(
            metrics=engine.metrics,
            board=SloBoard("m"),
            clock=lambda: 0.0,
            call_later=asyncio.get_running_loop().call_later,
            record=engine.record,
        ),
    )
    body = CompletionRequest(prompt="unused", **fields)
    return Call(service, body, [Prompt(token_ids=ids) for ids in prompts], 0.0, caller=CALLER)


async def run(call: Call) -> list[Piece]:
    drafts: dict[int, Draft] = {}
    async with call:
        async for index, piece in call.pieces():
            drafts.setdefault(index, Draft()).add(piece)
            call.handed(index, piece)
            call.written(index, piece)
    return await call.chosen(drafts)


def one_token(request: Request) -> list[TokenOutput]:
    return [TokenOutput(request.request_id, (97,), FinishReason.LENGTH)]


async def test_choices_fork_the_first_of_their_prompt() -> None:
    engine = Engine(one_token)
    await run(call_of(engine, (1, 2), (3,), n=3, seed=9, service_tier="flex"))
    assert [request.request_id for request in engine.requests] == [0, 1, 2, 3, 4, 5]
    assert [request.parent_id for request in engine.requests] == [None, 0, 0, None, 3, 3]
    assert [request.prompt_token_ids for request in engine.requests] == [(1, 2)] * 3 + [(3,)] * 3
    assert {request.cache_scope for request in engine.requests} == {CALLER.cache_scope}
    assert {request.deadline_s for request in engine.requests} == {1.5}
    assert {request.tier for request in engine.requests} == {Tier.BATCH}


async def test_the_best_of_many_are_shown_best_first_and_all_counted() -> None:
    marks = {0: -3.0, 1: -1.0, 2: -2.0}

    def script(request: Request) -> list[TokenOutput]:
        token = 97 + request.request_id
        scored = (scores(token, marks[request.request_id]),)
        return [TokenOutput(request.request_id, (token,), FinishReason.LENGTH, logprobs=scored)]

    call = call_of(Engine(script), (1, 2), n=2, best_of=3)
    assert [choice.text for choice in await run(call)] == ["b", "c"]
    assert (call.usage.prompt_tokens, call.usage.completion_tokens) == (2, 3)


async def test_a_prompt_is_scored_once_and_shown_in_every_choice() -> None:
    def script(request: Request) -> list[TokenOutput]:
        token = 97 + request.request_id
        scored = (scores(token),)
        if request.parent_id is not None:
            return [TokenOutput(request.request_id, (token,), FinishReason.LENGTH, logprobs=scored)]
        first = TokenOutput(
            request.request_id, (token,), logprobs=scored, prompt_logprobs=(scores(98),)
        )
        return [first, TokenOutput(request.request_id, (), FinishReason.LENGTH)]

    engine = Engine(script)
    choices = await run(call_of(engine, (97, 98), n=2, echo=True, logprobs=0))
    assert [request.sampling.prompt_logprobs for request in engine.requests] == [0, None]
    assert [choice.shown for choice in choices] == ["aba", "abb"]
    for choice in choices:
        assert choice.opening is not None
        assert choice.opening.scores == (scores(98),)
        assert [each.offset for each in choice.scored] == [2]


async def test_later_choices_wait_for_the_prompts_scores_and_end_with_the_first() -> None:
    def script(request: Request) -> list[TokenOutput]:
        if request.parent_id is not None:
            return one_token(request)
        return [TokenOutput(request.request_id, (), FinishReason.ERROR, error="non-finite logits")]

    engine = Engine(script)
    with pytest.raises(InternalError, match="non-finite"):
        await asyncio.wait_for(run(call_of(engine, (97, 98), n=3, prompt_logprobs=1)), 10)
    assert engine.aborted == {0, 1, 2}


def ended(engine: Engine) -> dict[str, float]:
    """Requests by outcome, and those that met their objectives or did not."""
    return {
        sample.labels["outcome"]: sample.value
        for family in engine.metrics.registry.collect()
        if family.name in ("paceline_engine_requests", "paceline_engine_goodput_requests")
        for sample in family.samples
        if sample.value
    }


@pytest.mark.behaviour(
    "settings that leave no token to draw are the caller's mistake: a 400, no failure of ours",
    report="mistakes of a client answered with 500 and counted against the server",
)
@pytest.mark.parametrize(
    ("fault", "remedy"),
    [(Fault.OVERFLOW, "repetition_penalty"), (Fault.EXHAUSTED, "bad_words"), (None, "")],
)
async def test_whose_fault_a_failure_is_decides_its_status(
    fault: Fault | None, remedy: str
) -> None:
    def script(request: Request) -> list[TokenOutput]:
        if request.parent_id is None:
            return [TokenOutput(request.request_id, (97,))] * 5
        why = TokenOutput(request.request_id, (), FinishReason.ERROR, error="why", fault=fault)
        return [why]

    engine = Engine(script)
    with pytest.raises(ApiError, match=f"why.*{remedy}") as caught:
        await asyncio.wait_for(run(call_of(engine, (97, 98), n=3)), 10)
    ours = fault is None
    assert caught.value.status == (500 if ours else 400)
    assert caught.value.code == ("internal_error" if ours else "invalid_value")
    assert engine.aborted == {0, 1, 2}
    assert ended(engine) == ({"error": 3, "bad": 3} if ours else {"invalid": 3})


async def test_a_call_that_fails_half_way_through_its_admission_leaves_nothing() -> None:
    engine = Engine(one_token)
    engine.seeds = [1]
    call = call_of(engine, (1, 2), (3,), n=2)
    with pytest.raises(IndexError):
        await run(call)
    assert engine.aborted == {0, 1}
    assert engine.admission.requests == 0
    assert ended(engine) == {"error": 2, "bad": 2}


@pytest.mark.behaviour(
    "a piece costs its call the same however many choices there are",
    report="superlinear work: each token of one choice touches all its siblings",
)
@pytest.mark.parametrize("choices", [1, 30])
async def test_work_per_piece_does_not_grow_with_the_choices(choices: int) -> None:
    lines = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    async with call_of(Engine(one_token), (1, 2), n=choices) as call:
        before = sys.gettrace()
        sys.settrace(count)
        try:
            for index in range(choices):
                call.handed(index, Piece())
                call.written(index, Piece())
        finally:
            sys.settrace(before)
    assert lines <= 40 * choices


class Unending(Engine):
    """Answers nothing; notes in which turn of the event loop it was asked for what."""

    def __init__(self) -> None:
        super().__init__(one_token)
        self.admission = Admission(10_000, 100_000, clock=lambda: 0.0)
        self.seeds = [1] * 100
        self.turn = 0
        self.asked: dict[str, list[int]] = {"begin": [], "submit": [], "abort": [], "end": []}
        self.sent: list[tuple[int, ...]] = []
        self.request_ids = map(self._begun, itertools.count())

    def _begun(self, request_id: int) -> int:
        self.note("begin")
        return request_id

    def record(self, record: RequestRecord) -> None:
        self.note("end")

    async def count_turns(self) -> None:
        while True:
            self.turn += 1
            await asyncio.sleep(0)

    def note(self, what: str, choices: int = 1) -> None:
        self.asked[what] += [self.turn] * choices

    async def _outputs(self, request: Request) -> AsyncIterator[TokenOutput]:
        await asyncio.Event().wait()
        yield TokenOutput(request.request_id, ())

    def submit(
        self, request: Request, forks: Sequence[Fork] = ()
    ) -> list[AsyncIterator[TokenOutput]]:
        self.note("submit", 1 + len(forks))
        return super().submit(request, forks)

    def abort(self, *request_ids: int) -> None:
        if open_ids := tuple(each for each in request_ids if each not in self.aborted):
            self.sent.append(open_ids)
            self.note("abort", len(open_ids))
        super().abort(*request_ids)


@pytest.mark.behaviour(
    "a call of a thousand choices begins and ends some at a time, between other calls' streams",
    report="own finding: 4,096 choices held up every stream for 0.8 s, and 0.5 s when they left",
)
@pytest.mark.parametrize(("prompts", "choices"), [(16, 64), (1024, 1), (11, 100)])
async def test_many_choices_take_turns(prompts: int, choices: int) -> None:
    engine = Unending()
    engine.seeds = [1] * prompts
    call = call_of(engine, *((1, 2),) * prompts, n=choices)
    turns = asyncio.create_task(engine.count_turns())

    async def consume() -> None:
        async with call:
            async for _ in call.pieces():
                raise AssertionError

    consumer = asyncio.create_task(consume())
    async with asyncio.timeout(10):
        for _ in range(3 * prompts * choices // 64):
            await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(AbandonedError):
            await consumer
    turns.cancel()
    for what, when in engine.asked.items():
        assert len(when) == prompts * choices, what
        assert max(Counter(when).values()) <= max(64, choices), what
    assert [each for sent in engine.sent for each in sent] == list(range(prompts * choices))
    assert len(engine.sent) <= prompts * choices / 64 + 1
    assert engine.admission.requests == engine.admission.kv_tokens == 0
    assert ended(engine) == {"gone": prompts * choices}


async def test_a_call_whose_task_is_cancelled_leaves_nothing() -> None:
    engine = Unending()
    call = call_of(engine, *((1, 2),) * 5, n=50)

    async def consume() -> None:
        async with call:
            async for _ in call.pieces():
                raise AssertionError

    for turns in (1, 2, 4):
        consumer = asyncio.create_task(consume())
        for _ in range(turns):
            await asyncio.sleep(0)
        for _ in range(20):
            consumer.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await consumer
        assert engine.admission.requests == engine.admission.kv_tokens == 0
        call = call_of(engine, *((1, 2),) * 5, n=50)


async def test_no_token_is_shown_or_counted_where_none_was_asked_for() -> None:
    call = call_of(Engine(one_token), (97,), echo=True, max_tokens=0)
    (choice,) = await run(call)
    assert (choice.shown, choice.token_ids, choice.finish_reason) == ("a", (), "length")
    assert call.usage.completion_tokens == 0


async def test_a_stop_inside_several_tokens_trims_at_one_of_them() -> None:
    """As with drafts: one output brings more tokens than the answer may hold."""

    def script(request: Request) -> list[TokenOutput]:
        ids = tuple(b"abcdef")
        return [
            TokenOutput(
                request.request_id,
                ids,
                FinishReason.LENGTH,
                logprobs=tuple(scores(token) for token in ids),
            )
        ]

    engine = Engine(script)
    call = call_of(engine, (1,), stop="cd", logprobs=0, max_tokens=6)
    (choice,) = await run(call)
    assert (choice.text, choice.token_ids) == ("ab", tuple(b"abcd"))
    assert len(choice.scored) == call.usage.completion_tokens == 4
    assert (choice.finish_reason, choice.stop_reason) == ("stop", "cd")


@pytest.mark.behaviour(
    "the token that ends an answer is counted wherever tokens are: usage, metrics, request log, "
    "max_tokens",
    report="lmstudio-bug-tracker #2335: completion_tokens one less than was generated",
)
@pytest.mark.parametrize("stop_token_ids", [None, (256,)], ids=["end token", "stop token"])
async def test_the_token_that_ends_an_answer_counts(stop_token_ids: tuple[int, ...] | None) -> None:
    def script(request: Request) -> list[TokenOutput]:
        return [
            TokenOutput(request.request_id, (97,)),
            TokenOutput(request.request_id, (98,)),
            TokenOutput(request.request_id, (), FinishReason.STOP, stop_token_id=256),
        ]

    engine = Engine(script)
    call = call_of(engine, (1,), max_tokens=3, stop_token_ids=stop_token_ids)
    (choice,) = await run(call)
    assert (choice.token_ids, choice.finish_reason) == ((97, 98), "stop")
    assert call.usage.completion_tokens == call.choice_usage(0, choice).completion_tokens == 3
    assert [record.output_tokens for record in engine.records] == [3]
    told = {
        sample.name: sample.value
        for family in engine.metrics.registry.collect()
        for sample in family.samples
        if sample.labels.get("tier") != "batch"
    }
    assert told["paceline_engine_generation_tokens_total"] == 3
    assert told["paceline_engine_request_generation_tokens_sum"] == 3


async def test_a_shown_stop_token_that_completes_a_stop_string_counts_too() -> None:
    def script(request: Request) -> list[TokenOutput]:
        return [
            TokenOutput(request.request_id, (97,)),
            TokenOutput(request.request_id, (), FinishReason.STOP, stop_token_id=98),
        ]

    engine = Engine(script)
    fields: dict[str, Any] = {"stop": "ab", "include_stop_str_in_output": True}
    call = call_of(engine, (1,), max_tokens=3, stop_token_ids=(98,), **fields)
    (choice,) = await run(call)
    assert (choice.text, choice.stop_reason) == ("ab", "ab")
    assert call.usage.completion_tokens == 2
    assert [record.output_tokens for record in engine.records] == [2]
