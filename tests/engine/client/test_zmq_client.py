"""The client against real engine processes on the simulated device."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import uvloop

from paceline_engine.client import EngineDeadError, ZmqEngineClient
from paceline_engine.config import Device, EngineConfig, StepTimeLaw
from paceline_engine.message import Fork, StepStats, TokenOutput
from paceline_engine.request import FinishReason, Request
from paceline_engine.runner.simulated import TokenLaw
from paceline_engine.sampling import SamplingParams
from tests.support.engine_config import engine_config

TIMEOUT_S = 20
SLOW_LAW = StepTimeLaw(base_ms=50.0, per_token_ms=0.0)


def request(request_id: int, prompt: int = 20, max_tokens: int = 8) -> Request:
    return Request(
        request_id=request_id,
        prompt_token_ids=(1,) * prompt,
        sampling=SamplingParams(seed=request_id, max_tokens=max_tokens),
    )


def expected(asked: Request) -> list[int]:
    law, start = TokenLaw(300, (0,)), len(asked.prompt_token_ids)
    seed, count = asked.sampling.seed, asked.sampling.max_tokens
    return [law.token(seed, position) for position in range(start, start + count)]


@asynccontextmanager
async def running(
    config: EngineConfig, on_step: Callable[[StepStats], None] | None = None
) -> AsyncIterator[ZmqEngineClient]:
    client = ZmqEngineClient(config, on_step=on_step)
    await client.start()
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await client.wait_ready()
        yield client
    finally:
        await client.stop()


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110  no event tells of an idle report
            await asyncio.sleep(0.01)


async def collect(stream: AsyncIterator[TokenOutput]) -> list[TokenOutput]:
    async with asyncio.timeout(TIMEOUT_S):
        return [output async for output in stream]


def submit(client: ZmqEngineClient, asked: Request) -> AsyncIterator[TokenOutput]:
    (outputs,) = client.submit(asked)
    return outputs


def tokens(outputs: list[TokenOutput]) -> list[int]:
    return [token for output in outputs for token in output.token_ids]


async def test_a_request_streams_to_its_end() -> None:
    steps: list[StepStats] = []
    async with running(engine_config(), steps.append) as client:
        asked = request(3)
        outputs = await collect(submit(client, asked))
    assert tokens(outputs) == expected(asked)
    assert [o.finish_reason for o in outputs] == [None] * 7 + [FinishReason.LENGTH]
    assert outputs[0].queue_s is not None
    assert outputs[0].queue_s >= 0
    assert [step.step_class for step in steps] == ["prefill_only"] + ["decode_only"] * 7
    assert all(step.duration_s > 0 for step in steps)


async def test_requests_sent_while_it_loads_are_served_after() -> None:
    client = ZmqEngineClient(engine_config(load_seconds=0.5))
    await client.start()
    try:
        asked = request(1)
        stream = submit(client, asked)
        assert not client.ready.is_set()
        assert tokens(await collect(stream)) == expected(asked)
        assert client.ready.is_set()
    finally:
        await client.stop()


async def use(client: ZmqEngineClient, asked: Request, abort_after: int | None) -> FinishReason:
    """Reads a request's outputs and checks them; aborts after some, if told so."""
    got: list[int] = []
    reason: FinishReason | None = None
    stream = submit(client, asked)
    if abort_after == 0:
        client.abort(asked.request_id)
    async for output in stream:
        got.extend(output.token_ids)
        reason = output.finish_reason
        if abort_after is not None and len(got) >= abort_after and reason is None:
            client.abort(asked.request_id)
    whole = expected(asked)
    assert reason is not None
    assert got == (whole if reason is FinishReason.LENGTH else whole[: len(got)])
    return reason


async def turn_knobs(client: ZmqEngineClient, chance: random.Random) -> None:
    while True:
        budget, running_seqs = chance.randrange(1, 600), chance.randrange(1, 24)
        applied = await client.apply_tunables(
            max_num_batched_tokens=budget, max_num_running_seqs=running_seqs
        )
        assert applied.max_num_running_seqs == min(running_seqs, 16)
        assert applied.max_num_batched_tokens <= 512
        await asyncio.sleep(0.01)


async def test_a_crowd_with_aborts_and_turning_knobs_ends_and_leaves_nothing() -> None:
    chance = random.Random(20)
    crowd = [
        (
            request(index, prompt=chance.randrange(1, 40), max_tokens=chance.randrange(60, 120)),
            chance.choice([None, None, None, 0, 1, 5]),
        )
        for index in range(80)
    ]
    preemptions: list[int] = []

    async def arrive(
        client: ZmqEngineClient, index: int, asked: Request, abort_after: int | None
    ) -> FinishReason:
        await asyncio.sleep(0.003 * index)
        return await use(client, asked, abort_after)

    config = engine_config(num_kv_blocks=32)
    async with running(config, lambda step: preemptions.append(step.preemptions)) as client:
        knobs = asyncio.create_task(turn_knobs(client, chance))
        async with asyncio.timeout(30):
            reasons = await asyncio.gather(
                *(arrive(client, index, *member) for index, member in enumerate(crowd))
            )
        knobs.cancel()
        await asyncio.gather(knobs, return_exceptions=True)
        await eventually(lambda: client.state.requests_running == 0)
        state = client.state
    assert set(reasons) == {FinishReason.LENGTH, FinishReason.ABORT}
    for (_, abort_after), reason in zip(crowd, reasons, strict=True):
        assert abort_after is not None or reason is FinishReason.LENGTH
    assert sum(preemptions) > 0
    assert (state.requests_waiting, state.waiting_tokens) == (0, 0)
    assert (state.kv_blocks_free + state.kv_blocks_cached, state.kv_blocks_held) == (32, 0)


async def test_an_abort_ends_the_stream_and_frees_the_blocks() -> None:
    async with running(engine_config(step_time_law=SLOW_LAW)) as client:
        stream = submit(client, request(1, max_tokens=200))
        first = await anext(stream)
        assert first.finish_reason is None
        other = submit(client, request(2, max_tokens=200))
        client.abort(1, 77, 2)
        client.abort(1)
        assert [output.finish_reason for output in await collect(other)] == [FinishReason.ABORT]
        assert [output.finish_reason for output in await collect(stream)][-1] is FinishReason.ABORT
        await eventually(lambda: client.state.kv_blocks_held == 0)


async def test_tunables_come_back_as_they_are_in_force() -> None:
    async with running(engine_config()) as client:
        applied = await client.apply_tunables(max_num_batched_tokens=100)
        assert (applied.max_num_batched_tokens, applied.max_num_running_seqs) == (96, 16)
        applied = await client.apply_tunables(max_num_running_seqs=99)
        assert (applied.max_num_batched_tokens, applied.max_num_running_seqs) == (96, 16)
        await eventually(lambda: client.state.max_num_batched_tokens == 96)
        applied = await client.apply_tunables(step_time_target_ms=12.5)
        assert (applied.max_num_batched_tokens, applied.step_time_target_ms) == (96, 12.5)
        await eventually(lambda: client.state.step_time_target_ms == 12.5)


async def test_kill_9_reaches_every_iterator_within_two_seconds() -> None:
    async with running(engine_config(step_time_law=SLOW_LAW)) as client:
        readers = [
            asyncio.create_task(collect(submit(client, request(index, max_tokens=200))))
            for index in range(40)
        ]
        await eventually(lambda: client.state.requests_running == 16)
        assert client.pid is not None
        os.kill(client.pid, signal.SIGKILL)
        killed_at = time.monotonic()
        results = await asyncio.gather(*readers, return_exceptions=True)
        assert time.monotonic() - killed_at < 2
        assert [type(result) for result in results] == [EngineDeadError] * 40
        assert client.failed.is_set()
        assert client.failure == "the engine process was killed by signal 9"
        state = client.state
        assert (state.requests_running, state.requests_waiting, state.waiting_tokens) == (0, 0, 0)
        assert (state.kv_blocks_held, state.kv_blocks_free) == (0, 64)
        with pytest.raises(EngineDeadError, match="signal 9"):
            submit(client, request(99))
        with pytest.raises(EngineDeadError, match="signal 9"):
            await client.apply_tunables(max_num_batched_tokens=64)


async def test_a_call_in_flight_fails_with_the_engine() -> None:
    async with running(engine_config(step_time_law=StepTimeLaw(base_ms=5e3, per_token_ms=0))) as c:
        assert c.pid is not None
        os.kill(c.pid, signal.SIGSTOP)  # else it may have answered before it is killed
        reader = asyncio.create_task(collect(submit(c, request(1))))
        call = asyncio.create_task(c.apply_tunables(max_num_running_seqs=4))
        await asyncio.sleep(0)
        os.kill(c.pid, signal.SIGKILL)
        results = await asyncio.gather(reader, call, return_exceptions=True)
        assert [type(result) for result in results] == [EngineDeadError] * 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"device": Device.CUDA}, "device 'cuda' has no runner here: use cpu or simulated"),
        ({"step_time_law": None}, "the simulated device needs a step-time law"),
    ],
)
async def test_a_model_that_cannot_load_is_said_in_one_line(
    changes: dict[str, object], said: str
) -> None:
    client = ZmqEngineClient(engine_config(**changes))
    await client.start()
    try:
        stream = submit(client, request(1))
        async with asyncio.timeout(TIMEOUT_S):
            with pytest.raises(EngineDeadError, match=said):
                await client.wait_ready()
            with pytest.raises(EngineDeadError, match=said):
                await anext(stream)
        assert client.failure is not None
        assert "\n" not in client.failure
    finally:
        await client.stop()


@pytest.mark.behaviour(
    "requests that the engine has not read yet are among the waiting",
    report="own risk: gauges said that nothing waited while a burst lay unread",
)
async def test_what_the_engine_has_not_read_waits() -> None:
    async with running(engine_config(step_time_law=SLOW_LAW, max_num_seqs=2)) as client:
        assert client.pid is not None
        os.kill(client.pid, signal.SIGSTOP)
        family = client.submit(request(1, max_tokens=3), [Fork(2, 2), Fork(3, 3)])
        others = [submit(client, request(4 + each, max_tokens=3)) for each in range(5)]
        assert (client.state.requests_waiting, client.state.waiting_tokens) == (8, 122)
        os.kill(client.pid, signal.SIGCONT)
        for each in (*family, *others):
            assert len(tokens(await collect(each))) == 3
        await eventually(lambda: client.state.requests_running == 0)
        assert (client.state.requests_waiting, client.state.waiting_tokens) == (0, 0)
        assert client.state.requests_taken == 8


async def test_idle_heartbeats_arrive() -> None:
    async with running(engine_config()) as client:
        for _ in range(2):
            heard = client.last_heartbeat_s
            await eventually(partial(lambda before: client.last_heartbeat_s > before, heard))


async def test_a_stopped_engine_ends_its_streams_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    client = ZmqEngineClient(engine_config(step_time_law=SLOW_LAW))
    await client.start()
    await client.wait_ready()
    stream = submit(client, request(1, max_tokens=200))
    await anext(stream)
    assert os.listdir(tmp_path)
    await client.stop()
    with pytest.raises(EngineDeadError, match="the engine was stopped"):
        await collect(stream)
    await client.stop()
    assert not os.listdir(tmp_path)
    assert client._process is not None
    assert client._process.returncode == 0


async def test_stopping_while_it_loads_takes_no_grace() -> None:
    client = ZmqEngineClient(engine_config(load_seconds=60), stop_grace_s=30)
    await client.start()
    before = time.monotonic()
    await client.stop()
    assert time.monotonic() - before < 10


async def test_an_engine_that_does_not_listen_is_killed_after_the_grace() -> None:
    client = ZmqEngineClient(engine_config(), stop_grace_s=0.2)
    await client.start()
    await client.wait_ready()
    assert client.pid is not None
    os.kill(client.pid, signal.SIGSTOP)
    stream = submit(client, request(1))
    await client.stop()
    with pytest.raises(EngineDeadError, match="the engine was stopped"):
        await anext(stream)
    assert client._process is not None
    assert client._process.returncode == -signal.SIGKILL


async def test_nothing_is_accepted_before_the_start() -> None:
    client = ZmqEngineClient(engine_config())
    with pytest.raises(EngineDeadError, match="has not been started"):
        submit(client, request(1))
    await client.stop()


async def test_an_id_in_use_is_refused() -> None:
    async with running(engine_config(step_time_law=SLOW_LAW)) as client:
        stream = submit(client, request(1))
        with pytest.raises(ValueError, match="request id 1 is in use"):
            submit(client, request(1))
        assert tokens(await collect(stream)) == expected(request(1))


async def test_choices_of_a_prompt_come_as_if_each_had_been_sent() -> None:
    async with running(engine_config()) as client:
        forks = [Fork(request_id, seed=request_id) for request_id in (2, 3)]
        streams = client.submit(request(1), forks)
        told = await asyncio.gather(*map(collect, streams))
    assert [tokens(each) for each in told] == [expected(request(index)) for index in (1, 2, 3)]


async def test_no_id_of_a_family_may_be_in_use_or_given_twice() -> None:
    async with running(engine_config(step_time_law=SLOW_LAW)) as client:
        stream = submit(client, request(1))
        with pytest.raises(ValueError, match="request id 1 is in use"):
            client.submit(request(2), [Fork(1, seed=1)])
        with pytest.raises(ValueError, match="twice"):
            client.submit(request(2), [Fork(2, seed=1)])
        assert tokens(await collect(stream)) == expected(request(1))
        assert tokens(await collect(submit(client, request(2)))) == expected(request(2))


async def test_a_failing_observer_fails_the_engine_instead_of_hanging_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(_: StepStats) -> None:
        raise KeyError("Xyzzy-Plugh")

    async with running(engine_config(), broken) as client:
        with pytest.raises(EngineDeadError, match=r"cannot be handled: KeyError$"):
            await collect(submit(client, request(1)))
    assert "in broken" in caplog.text
    assert "Xyzzy-Plugh" not in caplog.text.replace('KeyError("Xyzzy-Plugh")', "")


def test_it_runs_on_the_servers_event_loop() -> None:
    async def serve() -> list[int]:
        async with running(engine_config()) as client:
            return tokens(await collect(submit(client, request(5))))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(serve()) == expected(request(5))
