"""Clearing the cache of a running loop: what is free is overwritten now, the rest when let go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from typing_extensions import override

from paceline_engine.config import StepTimeLaw
from paceline_engine.engine.loop import EngineLoop
from paceline_engine.message import (
    AddRequest,
    CacheCleared,
    ClearCache,
    FromEngine,
    StepReport,
    ToEngine,
)
from paceline_engine.request import CacheScope, Request
from paceline_engine.runner.base import RunnerOutput
from paceline_engine.runner.simulated import SimulatedRunner, TokenLaw
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.output import SchedulerOutput
from paceline_engine.scheduler.scheduler import Scheduler
from tests.support.engine_config import engine_config
from tests.support.fake_clock import FakeClock

LAW = StepTimeLaw(base_ms=10.0, per_token_ms=0.0)
PROMPT = tuple(range(1, 41))  # two full blocks and a half


class RecordingRunner(SimulatedRunner):
    """The simulated device, and in which order it was told to overwrite and to compute."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(LAW, TokenLaw(300, (0,)), clock)
        self.wiped: list[int] = []
        self.written: list[int] = []

    @override
    def execute(self, output: SchedulerOutput) -> RunnerOutput:
        self.wipe(output.wipes)
        self.written.extend(block for chunk in output.chunks for block in chunk.block_ids)
        return super().execute(output)

    @override
    def wipe(self, block_ids: Sequence[int]) -> None:
        self.wiped.extend(block_ids)


class Inbox:
    """A channel that a test fills and reads."""

    def __init__(self, clock: FakeClock) -> None:
        self.waiting: list[ToEngine] = []
        self.sent: list[FromEngine] = []
        self._clock = clock

    def send(self, message: FromEngine) -> None:
        self.sent.append(message)

    def wait(self, timeout_s: float) -> bool:
        self._clock.time_s += timeout_s
        return False

    def pending(self) -> Iterator[ToEngine]:
        while self.waiting:
            yield self.waiting.pop(0)


class Engine:
    """A loop on a clock that only its own steps and waits move."""

    def __init__(self, **changes: Any) -> None:
        config = engine_config(**changes)
        self.clock = FakeClock()
        self.inbox = Inbox(self.clock)
        self.runner = RecordingRunner(self.clock)
        self.scheduler = Scheduler(config)
        self.loop = EngineLoop(self.scheduler, self.runner, self.inbox, self.clock)

    def turn(self, *messages: ToEngine) -> list[FromEngine]:
        self.inbox.waiting.extend(messages)
        before = len(self.inbox.sent)
        self.loop.turn()
        return self.inbox.sent[before:]

    def clear(self, message: ClearCache) -> CacheCleared:
        return next(sent for sent in self.turn(message) if isinstance(sent, CacheCleared))

    def serve(self, request: AddRequest) -> int:
        """Runs a request to its end; returns how much of its prompt was cached."""
        reports = self.turn(request)
        while self.scheduler.has_work:
            reports += self.turn()
        outputs = [o for sent in reports if isinstance(sent, StepReport) for o in sent.outputs]
        return next(o.cached_tokens for o in outputs if o.cached_tokens is not None)


def request(request_id: int, tenant: str = "a", max_tokens: int = 3) -> AddRequest:
    return AddRequest(
        request=Request(
            request_id=request_id,
            prompt_token_ids=PROMPT,
            sampling=SamplingParams(seed=request_id, max_tokens=max_tokens),
            cache_scope=CacheScope(tenant=tenant),
        )
    )


def test_what_is_cached_is_freed_overwritten_and_counted() -> None:
    engine = Engine()
    assert (engine.serve(request(1)), engine.serve(request(2))) == (0, 32)
    assert engine.scheduler.pool.num_cached == 2
    cleared = engine.clear(ClearCache(call_id=7))
    assert cleared == CacheCleared(7, blocks=2, tokens=32, held=0)
    assert set(engine.runner.wiped) == set(engine.runner.written)
    assert engine.scheduler.pool.num_free == engine.scheduler.pool.num_blocks
    assert engine.serve(request(3)) == 0


def test_another_tenants_cache_stays() -> None:
    engine = Engine()
    engine.serve(request(1, tenant="a"))
    engine.serve(request(2, tenant="b"))
    assert engine.clear(ClearCache(call_id=1, tenant="a")).blocks == 2
    assert engine.serve(request(3, tenant="b")) == 32
    assert engine.serve(request(4, tenant="a")) == 0


def test_age_is_time_since_the_last_use() -> None:
    engine = Engine()
    engine.serve(request(1, tenant="a"))
    engine.clock.time_s += 30.0
    engine.serve(request(2, tenant="b"))
    engine.clock.time_s += 30.0
    assert engine.clear(ClearCache(call_id=1, older_than_s=90.0)).blocks == 0
    assert engine.clear(ClearCache(call_id=2, older_than_s=45.0)).blocks == 2
    assert engine.serve(request(3, tenant="b")) == 32


def test_what_is_in_use_is_overwritten_once_idle() -> None:
    engine = Engine()
    engine.turn(request(1, max_tokens=3))
    held = engine.scheduler.pool.num_held
    cleared = engine.clear(ClearCache(call_id=1))
    assert cleared == CacheCleared(1, blocks=0, tokens=0, held=held)
    assert engine.runner.wiped == []
    while engine.scheduler.has_work:
        engine.turn()
    assert engine.scheduler.pool.num_cached == 0
    engine.turn()
    assert set(engine.runner.wiped) == set(engine.runner.written)


def test_what_was_in_use_is_overwritten_before_anyone_else_writes_there() -> None:
    engine = Engine()
    engine.turn(request(1, max_tokens=2))
    engine.clear(ClearCache(call_id=1))
    first = set(engine.runner.written)
    engine.runner.written.clear()
    engine.serve(request(2))
    assert first & set(engine.runner.written), "the blocks used last are given out first"
    assert first <= set(engine.runner.wiped)


def test_what_has_expired_is_overwritten_while_idle() -> None:
    engine = Engine(cache_retention_s=5.0)
    engine.serve(request(1))
    cached = set(engine.scheduler.pool._ledger._cached)
    for _ in range(8):
        engine.turn()
    assert engine.scheduler.pool.num_cached == 0
    assert cached == set(engine.runner.wiped)
    engine.turn()
    assert len(engine.runner.wiped) == len(cached), "once"


def test_one_tenants_blocks_are_overwritten_before_anothers_tokens_go_there() -> None:
    engine = Engine(num_kv_blocks=16)
    engine.serve(request(1, tenant="a"))
    first = set(engine.runner.written)
    engine.runner.written.clear()
    assert engine.runner.wiped == []
    engine.turn(request(2, tenant="b"))
    common = first & set(engine.runner.written)
    assert common
    assert set(engine.runner.wiped) == common
