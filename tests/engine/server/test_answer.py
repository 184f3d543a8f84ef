"""A streamed answer to clients that leave, do not read, or meet a defect of ours."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from paceline_engine.message import Fork, TokenOutput
from paceline_engine.request import FinishReason, Request
from paceline_engine.server.admission import Admission
from paceline_engine.server.answer import EventStream, WholeAnswer
from paceline_engine.server.answer_wire import Usage
from paceline_engine.server.call import Call
from paceline_engine.server.caller import Caller
from paceline_engine.server.choices import Prompt
from paceline_engine.server.metric_families import RequestMetrics
from paceline_engine.server.piece import Piece
from paceline_engine.server.pressure import Pressure
from paceline_engine.server.request_meter import Metering
from paceline_engine.server.settings import ServerSettings
from paceline_engine.server.shape import ChunkUsage, CompletionShape, Head, View
from paceline_engine.server.slo import SloBoard
from paceline_engine.server.token_texts import TokenTexts
from paceline_engine.server.wire import CompletionRequest
from paceline_engine.tokenizer import load_tokenizer

Send = Callable[[dict[str, Any]], Awaitable[None]]


class Script:
    """An engine that gives three tokens, 0.1 s apart on a clock moved by hand."""

    def __init__(self, step_s: float = 0.1) -> None:
        self.now_s = 10.0
        self.aborted: list[int] = []
        self._step_s = step_s

    def submit(
        self, request: Request, forks: Sequence[Fork] = ()
    ) -> list[AsyncIterator[TokenOutput]]:
        ids = (request.request_id, *(fork.request_id for fork in forks))
        return [self._outputs(request_id) for request_id in ids]

    async def _outputs(self, request_id: int) -> AsyncIterator[TokenOutput]:
        for index in range(3):
            self.now_s += self._step_s
            reason = FinishReason.LENGTH if index == 2 else None
            yield TokenOutput(request_id, (ord("a") + index,), reason)
            await asyncio.sleep(0)

    def abort(self, *request_ids: int) -> None:
        self.aborted += request_ids


class Stage:
    def __init__(self, choices: int = 1, step_s: float = 0.1) -> None:
        self.engine = Script(step_s)
        self.metrics = RequestMetrics("m")
        self.gone = asyncio.Event()
        self.pressure = Pressure(lambda: self.engine.now_s)
        self.admission = Admission(100, 1000, clock=lambda: self.engine.now_s)
        service: Any = SimpleNamespace(
            client=self.engine,
            admission=self.admission,
            tokenizer=load_tokenizer(None),
            config=SimpleNamespace(max_request_tokens=100),
            settings=ServerSettings(model_name="m"),
            request_ids=itertools.count(),
            draw_seed=lambda: 1,
            clock=lambda: self.engine.now_s,
            check_open=lambda: None,
            metering=Metering(
                metrics=self.metrics,
                board=SloBoard("m"),
                clock=lambda: self.engine.now_s,
                call_later=asyncio.get_running_loop().call_later,
            ),
        )
        body = CompletionRequest(prompt="x", max_tokens=3, stream=True, n=choices)
        prompt, caller = Prompt(token_ids=(120,)), Caller(pressure=self.pressure)
        self._call = Call(service, body, [prompt], received_at=10.0, caller=caller)

    async def play(
        self, send: Send, shape: type[CompletionShape] = CompletionShape, *, is_whole: bool = False
    ) -> None:
        head = Head(answer_id="i", created=0, model="m")
        written = shape(head, View(texts=TokenTexts(load_tokenizer(None))))
        answer = (
            WholeAnswer(self._call, written)
            if is_whole
            else EventStream(self._call, written, with_usage=False)
        )
        scope: Any = {"type": "http", "state": {"is_gone": self.gone.is_set}}
        await answer(scope, self._receive, send)  # type: ignore[arg-type]  # messages are dicts

    def be_unread(self, seconds: float) -> None:
        """The client reads nothing for so long."""
        self.pressure.begin()
        self.engine.now_s += seconds
        self.pressure.end()

    async def _receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    def value(self, name: str, **labels: str) -> float:
        wanted = {"model_name": "m", "tier": "interactive", **labels}
        return self.metrics.registry.get_sample_value(f"paceline_engine_{name}", wanted) or 0.0

    def outcomes(self) -> dict[str, float]:
        kinds = ("stop", "length", "abort", "invalid", "error")
        counts = {kind: self.value("requests_total", outcome=kind) for kind in kinds}
        return {kind: count for kind, count in counts.items() if count}


async def test_a_slow_reader_is_no_gap_of_the_engine() -> None:
    stage = Stage()

    async def send(_message: dict[str, Any]) -> None:
        stage.be_unread(5.0)

    await stage.play(send)
    assert stage.outcomes() == {"length": 1}
    assert stage.value("time_to_first_token_seconds_sum") == pytest.approx(0.1)
    assert stage.value("inter_token_latency_seconds_count") == 2
    assert stage.value("inter_token_latency_seconds_sum") == pytest.approx(0.2)


@pytest.mark.behaviour(
    "a request whose answer its client did not take counts as abort, whole or streamed",
    report="own finding: an answer counted as complete when it was ready to be written",
)
@pytest.mark.parametrize("is_whole", [True, False])
async def test_a_client_that_does_not_take_its_answer_has_left(*, is_whole: bool) -> None:
    """The connection waits for the client, gives it up, and says so once `send` returns."""
    stage = Stage()

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            stage.gone.set()

    await asyncio.wait_for(stage.play(send, is_whole=is_whole), 5)
    assert stage.outcomes() == {"abort": 1}
    assert stage.value("goodput_requests_total") == 0
    assert stage.engine.aborted


async def test_a_whole_answer_keeps_the_queue_from_nobody_while_it_is_read() -> None:
    """What waits for its client alone is no load, and its pace was its own."""
    stage = Stage()
    seen: list[int] = []

    async def send(_message: dict[str, Any]) -> None:
        stage.engine.now_s += 50.0
        seen.append(stage.admission.kv_tokens)

    await stage.play(send, is_whole=True)
    assert seen == [0, 0]
    assert stage.value("request_time_per_output_token_seconds_sum") == pytest.approx(0.1)
    assert stage.value("request_duration_seconds_sum") == pytest.approx(0.3)


async def test_a_defect_is_no_abort_of_the_client() -> None:
    stage = Stage()

    async def send(_message: dict[str, Any]) -> None:
        raise ValueError("a defect")

    with pytest.raises(ValueError, match="a defect"):
        await stage.play(send)
    assert stage.outcomes() == {"error": 1}
    assert stage.value("goodput_requests_total", outcome="bad") == 1


async def test_a_client_that_leaves_is_an_abort() -> None:
    stage = Stage()

    async def send(_message: dict[str, Any]) -> None:
        stage.gone.set()
        for _ in range(3):
            await asyncio.sleep(0)  # the watcher sees it
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await stage.play(send)
    assert stage.outcomes() == {"abort": 1}


@pytest.mark.behaviour(
    "the time a server takes to write a chunk is its own, not its client's",
    report="own finding: log-probabilities of long prompts took long to write, and both TTFT and "
    "ITL left that out",
)
async def test_what_writing_takes_counts() -> None:
    stage = Stage()

    class Slow(CompletionShape):
        async def chunk(
            self, index: int, piece: Piece, *, is_first: bool, usage: ChunkUsage
        ) -> bytes:
            stage.engine.now_s += 0.5
            return await super().chunk(index, piece, is_first=is_first, usage=usage)

    async def send(_message: dict[str, Any]) -> None:
        stage.be_unread(5.0)

    await stage.play(send, Slow)
    assert stage.value("time_to_first_token_seconds_sum") == pytest.approx(0.6)
    assert stage.value("inter_token_latency_seconds_sum") == pytest.approx(2 * 0.6)


@pytest.mark.behaviour(
    "what a chunk takes to be sent is the server's time as long as the client reads, whatever n",
    report="own finding: with 128 choices clients saw gaps 4.75 ms longer than the metrics said",
)
@pytest.mark.parametrize("choices", [1, 64])
async def test_what_sending_takes_counts(choices: int) -> None:
    """Each of 3 tokens of each choice takes 1 ms to send: what the client sees is what is told."""
    stage, came_at = Stage(choices, step_s=0.0), defaultdict(list)

    async def send(message: dict[str, Any]) -> None:
        sent_at = stage.engine.now_s
        stage.engine.now_s += 0.001
        if (chunk := message.get("body", b"")).startswith(b"data: {"):
            came_at[json.loads(chunk[6:])["choices"][0]["index"]].append(sent_at)

    await stage.play(send)
    gaps = [b - a for times in came_at.values() for a, b in itertools.pairwise(times)]
    assert len(gaps) == 2 * choices
    assert stage.value("inter_token_latency_seconds_count") == 2 * choices
    told_s = stage.value("inter_token_latency_seconds_sum")
    assert told_s == pytest.approx(sum(gaps), abs=0.0011)  # the status went before the first


async def test_a_pause_between_pieces_is_none_of_the_clients() -> None:
    """It reads again before there is more for it: nothing waited for it."""
    stage = Stage()

    class Written(CompletionShape):
        async def chunk(
            self, index: int, piece: Piece, *, is_first: bool, usage: ChunkUsage
        ) -> bytes:
            stage.pressure.end()
            return await super().chunk(index, piece, is_first=is_first, usage=usage)

    async def send(_message: dict[str, Any]) -> None:
        stage.pressure.begin()

    await stage.play(send, Written)
    assert stage.value("inter_token_latency_seconds_sum") == pytest.approx(0.2)


async def test_a_whole_answer_is_written_as_long_as_somebody_waits_for_it() -> None:
    stage, sent = Stage(), []
    begun: list[Piece] = []

    class Endless(CompletionShape):
        async def whole(self, choices: Sequence[Piece], usage: Usage) -> bytes:
            begun.extend(choices)
            stage.gone.set()
            await asyncio.Event().wait()
            return b""

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await asyncio.wait_for(stage.play(send, Endless, is_whole=True), 5)
    assert [piece.text for piece in begun] == ["abc"]
    assert sent == []


async def test_a_whole_answer_is_sent() -> None:
    stage, sent = Stage(), []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await stage.play(send, is_whole=True)
    assert b'"text":"abc"' in sent[-1]["body"]
    assert (b"content-length", str(len(sent[-1]["body"])).encode()) in sent[0]["headers"]
    assert stage.outcomes() == {"length": 1}
