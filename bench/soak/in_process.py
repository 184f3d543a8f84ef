"""An engine on the server's own event loop: the real loop, scheduler and device, no process.

The engine's clock may run ahead of the event loop's: a step starts at the loop's time, and what
it reports is handed over when the loop's time has reached the step's end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator

from typing_extensions import override

from bench.soak.virtual_time import VirtualLoop, running_loop
from paceline_engine.client.zmq_client import ZmqEngineClient
from paceline_engine.config import EngineConfig
from paceline_engine.engine.loop import HEARTBEAT_S, EngineLoop
from paceline_engine.message import FromEngine, Ready, ToEngine
from paceline_engine.runner.simulated import SimulatedRunner, TokenLaw
from paceline_engine.scheduler.scheduler import Scheduler


class StepClock:
    """Time of the engine: the event loop's, or ahead of it while a step runs."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._ahead_s = 0.0

    def now(self) -> float:
        """See `Clock`."""
        return max(self._loop.time(), self._ahead_s)

    def sleep_until(self, deadline_s: float) -> None:
        """See `Clock`: nothing waits, the engine is ahead now."""
        self._ahead_s = max(self._ahead_s, deadline_s)


class InProcessClient(ZmqEngineClient):
    """The client that the server uses, with the engine behind it instead of a socket.

    Attributes:
        scheduler: The engine's, to look into.
    """

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config)
        if config.step_time_law is None:
            raise ValueError("only the simulated device runs in process")
        self._loop = running_loop()
        self.clock = StepClock(self._loop)
        self.scheduler = Scheduler(config)
        tokens = TokenLaw(config.vocab_size, config.eos_token_ids)
        runner = SimulatedRunner(config.step_time_law, tokens, self.clock)
        self._engine = EngineLoop(self.scheduler, runner, self, self.clock)
        self._inbox: deque[ToEngine] = deque()
        self._outbox: deque[FromEngine] = deque()
        self._turn: asyncio.TimerHandle | None = None

    @property
    def open_streams(self) -> int:
        """Requests whose outputs are still awaited."""
        return len(self._streams)

    def armed_timers(self) -> int:
        """Timers on the loop that are not cancelled, the engine's own among them."""
        return self._loop.count_timers()

    @override
    async def start(self) -> None:
        self._handle(Ready(num_kv_blocks=1, block_size=1))
        self._arm(self._loop.time())

    @override
    async def stop(self) -> None:
        if self._turn is not None:
            self._turn.cancel()
        self._fail("the engine was stopped")

    @override
    def _post(self, message: ToEngine) -> None:
        self._inbox.append(message)
        self._arm(self.clock.now())

    def send(self, message: FromEngine) -> None:
        """From the engine, see `MessageChannel`: it arrives when its time has come."""
        self._outbox.append(message)
        self._loop.call_at(self.clock.now(), self._deliver)

    def _deliver(self) -> None:
        self._handle(self._outbox.popleft())

    def wait(self, timeout_s: float) -> bool:
        """See `MessageChannel`: never waits; an idle engine's next turn is a second away."""
        return bool(self._inbox)

    def pending(self) -> Iterator[ToEngine]:
        """See `MessageChannel`."""
        while self._inbox:
            yield self._inbox.popleft()

    def _arm(self, at_s: float) -> None:
        if self._turn is not None:
            if self._turn.when() <= at_s:
                return
            self._turn.cancel()
        self._turn = self._loop.call_at(at_s, self._take_turn)

    def _take_turn(self) -> None:
        self._turn = None
        self._engine.turn()
        idle_s = 0.0 if self.scheduler.has_work or self._inbox else HEARTBEAT_S
        self._arm(self.clock.now() + idle_s)
