"""The engine client that runs: a child process behind a ZeroMQ pair socket."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Self, assert_never

import msgspec
import zmq
import zmq.asyncio

from paceline_engine.client.protocol import EngineDeadError
from paceline_engine.client.unread import Unread
from paceline_engine.config import EngineConfig
from paceline_engine.log import places
from paceline_engine.message import (
    AbortRequests,
    AddRequest,
    ApplyTunables,
    CacheCleared,
    ClearCache,
    EngineFailed,
    Fork,
    FromEngine,
    LoopState,
    Ready,
    Shutdown,
    StepReport,
    StepStats,
    ToEngine,
    TokenOutput,
    TunablesApplied,
)
from paceline_engine.request import FinishReason, Request

ENGINE_MODULE = "paceline_engine.engine"
LAST_WORDS_S = 0.5  # how long a dead process's last message may take to arrive

_log = logging.getLogger(__name__)


class TokenStream:
    """Outputs of one request in order; ends after the one with a finish reason."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[TokenOutput | EngineDeadError] = asyncio.Queue()
        self._ended = False

    def put(self, item: TokenOutput | EngineDeadError) -> None:
        """Adds the next output, or the error that ends the stream."""
        self._queue.put_nowait(item)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TokenOutput:
        if self._ended:
            raise StopAsyncIteration
        item = await self._queue.get()
        if isinstance(item, EngineDeadError):
            self._ended = True
            raise item
        self._ended = item.finish_reason is not None
        return item


class ZmqEngineClient:
    """`EngineClient` over a ZeroMQ pair socket to a process of its own.

    Args:
        config: Start-up configuration handed to the process.
        address: `ipc://` address to bind; a private temporary directory by default.
        on_step: See `EngineClient`.
        stop_grace_s: How long `stop` waits before it kills.
        log_level: Least severe messages that the process writes to stderr.
    """

    def __init__(
        self,
        config: EngineConfig,
        *,
        address: str | None = None,
        on_step: Callable[[StepStats], None] | None = None,
        stop_grace_s: float = 5.0,
        log_level: str = "info",
    ) -> None:
        self.ready = asyncio.Event()
        self.failed = asyncio.Event()
        self.on_step = on_step
        self._config = config
        self._address = address
        self._stop_grace_s = stop_grace_s
        self._log_level = log_level
        self._directory: str | None = None
        self._failure: str | None = None
        self._state = LoopState(
            requests_running=0,
            requests_waiting=0,
            waiting_tokens=0,
            kv_blocks_free=config.num_kv_blocks,
            kv_blocks_held=0,
            kv_blocks_cached=0,
            max_num_batched_tokens=config.initial_batched_tokens,
            max_num_running_seqs=config.initial_running_seqs,
            step_time_target_ms=config.initial_step_time_target_ms,
        )
        self._last_heartbeat_s = time.monotonic()
        self._unread = Unread()
        self._streams: dict[int, TokenStream] = {}
        self._calls: dict[int, asyncio.Future[TunablesApplied | CacheCleared]] = {}
        self._call_ids = itertools.count()
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(FromEngine)
        self._context: zmq.asyncio.Context | None = None
        self._socket: zmq.asyncio.Socket | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    @property
    def failure(self) -> str | None:
        """See `EngineClient`."""
        return self._failure

    @property
    def state(self) -> LoopState:
        """See `EngineClient`."""
        return self._unread.beside(self._state)

    @property
    def last_heartbeat_s(self) -> float:
        """See `EngineClient`."""
        return self._last_heartbeat_s

    @property
    def pid(self) -> int | None:
        """Process id of the engine; None before `start`."""
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """See `EngineClient`."""
        address = self._address or self._private_address()
        self._context = zmq.asyncio.Context()
        self._socket = self._context.socket(zmq.PAIR)
        self._socket.set_hwm(0)  # bounded by admission control, never by a stalled send
        self._socket.linger = 0
        self._socket.bind(address)
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            ENGINE_MODULE,
            address,
            str(os.getpid()),
            self._log_level,
            stdin=asyncio.subprocess.PIPE,
        )
        if self._process.stdin is not None:
            self._process.stdin.write(msgspec.json.encode(self._config))
            self._process.stdin.close()
        self._last_heartbeat_s = time.monotonic()
        self._tasks = (
            asyncio.create_task(self._receive(self._socket)),
            asyncio.create_task(self._watch(self._process)),
        )
        self._tasks[0].add_done_callback(self._on_receiver_done)

    def _private_address(self) -> str:
        self._directory = tempfile.mkdtemp(prefix="paceline-")
        return f"ipc://{self._directory}/engine.sock"

    def submit(
        self, request: Request, forks: Sequence[Fork] = ()
    ) -> Sequence[AsyncIterator[TokenOutput]]:
        """See `EngineClient`.

        Raises:
            ValueError: A request id is in use.
        """
        ids = [request.request_id, *(fork.request_id for fork in forks)]
        if len(streams := {each: TokenStream() for each in ids}) < len(ids):
            raise ValueError("a request id is given twice")
        if used := self._streams.keys() & streams.keys():
            raise ValueError(f"request id {min(used)} is in use")
        message = AddRequest(replace(request, received_s=time.monotonic()), tuple(forks))
        self._send(message)
        self._unread.send(message)
        self._streams |= streams
        return tuple(streams.values())

    def abort(self, *request_ids: int) -> None:
        """See `EngineClient`."""
        streams = {each: self._streams.pop(each, None) for each in request_ids}
        open_ids = tuple(each for each, stream in streams.items() if stream is not None)
        for request_id, stream in streams.items():
            if stream is not None:
                stream.put(TokenOutput(request_id, (), FinishReason.ABORT))
        if open_ids:
            self._send(AbortRequests(request_ids=open_ids))

    async def apply_tunables(
        self,
        *,
        max_num_batched_tokens: int | None = None,
        max_num_running_seqs: int | None = None,
        step_time_target_ms: float | None = None,
    ) -> TunablesApplied:
        """See `EngineClient`."""
        applied = await self._call(
            ApplyTunables(
                next(self._call_ids),
                max_num_batched_tokens,
                max_num_running_seqs,
                step_time_target_ms,
            )
        )
        assert isinstance(applied, TunablesApplied)  # noqa: S101 the engine answers in kind
        return applied

    async def clear_cache(
        self,
        *,
        tenant: str | None = None,
        scope: str | None = None,
        salt: str | None = None,
        older_than_s: float | None = None,
    ) -> CacheCleared:
        """See `EngineClient`."""
        cleared = await self._call(
            ClearCache(next(self._call_ids), tenant, scope, salt, older_than_s)
        )
        assert isinstance(cleared, CacheCleared)  # noqa: S101 the engine answers in kind
        return cleared

    async def _call(self, message: ApplyTunables | ClearCache) -> TunablesApplied | CacheCleared:
        self._send(message)
        answer: asyncio.Future[TunablesApplied | CacheCleared]
        answer = asyncio.get_running_loop().create_future()
        self._calls[message.call_id] = answer
        try:
            return await answer
        finally:
            self._calls.pop(message.call_id, None)

    async def wait_ready(self) -> None:
        """See `EngineClient`."""
        waits = [asyncio.ensure_future(e.wait()) for e in (self.ready, self.failed)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if self._failure is not None:
            raise EngineDeadError(self._failure)

    async def stop(self) -> None:
        """See `EngineClient`."""
        if self._process is None:
            return
        if self._process.returncode is None:
            await self._end_process(self._process)
        self._fail("the engine was stopped")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._release()

    async def _end_process(self, process: asyncio.subprocess.Process) -> None:
        if self.ready.is_set():
            self._post(Shutdown())
        elif self._failure is None:
            process.kill()  # it reads no message while it loads, and there is nothing to lose
        try:
            await asyncio.wait_for(process.wait(), self._stop_grace_s)
        except TimeoutError:
            process.kill()
            await process.wait()

    def _release(self) -> None:
        if self._context is not None:
            self._context.destroy(linger=0)
            self._context = None
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def _send(self, message: ToEngine) -> None:
        if self._failure is not None:
            raise EngineDeadError(self._failure)
        self._post(message)

    def _post(self, message: ToEngine) -> None:
        if self._socket is None:
            raise EngineDeadError("the engine has not been started")
        self._socket.send(self._encoder.encode(message))  # queued at once: no send limit

    async def _receive(self, socket: zmq.asyncio.Socket) -> None:
        while True:
            message = self._decoder.decode(await socket.recv())
            self._last_heartbeat_s = time.monotonic()
            self._handle(message)

    def _handle(self, message: FromEngine) -> None:
        match message:
            case StepReport():
                self._on_report(message)
            case Ready():
                self.ready.set()
            case TunablesApplied() | CacheCleared():
                answer = self._calls.get(message.call_id)
                if answer is not None and not answer.done():
                    answer.set_result(message)
            case EngineFailed():
                self._fail(message.reason)
            case _:
                assert_never(message)

    def _on_report(self, report: StepReport) -> None:
        self._state = report.state
        self._unread.take(report.state.requests_taken)
        for output in report.outputs:
            ended = output.finish_reason is not None
            streams = self._streams
            stream = (
                streams.pop(output.request_id, None) if ended else streams.get(output.request_id)
            )
            if stream is not None:  # None: aborted meanwhile
                stream.put(output)
        if report.stats is not None and self.on_step is not None:
            self.on_step(report.stats)

    def _on_receiver_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("the engine's messages cannot be handled: %s", places(error))
            self._fail(f"the engine's messages cannot be handled: {type(error).__name__}")

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        try:
            await asyncio.wait_for(self.failed.wait(), LAST_WORDS_S)
        except TimeoutError:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            self._fail(f"the engine process {how}")

    def _fail(self, reason: str) -> None:
        if self._failure is not None:
            return
        self._failure = reason
        self._state, self._unread = self._state.emptied(), Unread()
        self.failed.set()
        for stream in self._streams.values():
            stream.put(EngineDeadError(reason))
        self._streams.clear()
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(EngineDeadError(reason))
