"""Host time of one step: scheduling, bookkeeping and the report, device time left out.

    python -m bench.scheduling

prints the median and the 95th percentile over 300 steps with 256 running and 10,000 waiting
requests of 100 tenants in both tiers, while requests end and others get in; the same over steps
that hold nothing but prompts of 256 tenants; and those of a part of the idle audit.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec

from paceline_engine.clock import MonotonicClock
from paceline_engine.config import Device, EngineConfig
from paceline_engine.engine.loop import EngineLoop
from paceline_engine.kvcache.block_pool import BlockPool
from paceline_engine.message import FromEngine, ToEngine
from paceline_engine.request import CacheScope, Request, Tier
from paceline_engine.runner.base import RunnerOutput
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.output import SchedulerOutput
from paceline_engine.scheduler.scheduler import Scheduler

RUNNING = 256
PROMPT = 4000
PROMPT_STEPS = 100
AUDITED_BLOCKS = 1_000_000
WAITING = 10_000
TENANTS = 100
STEPS = 300
WARM_UP = 30
TEXT = tuple(range(1, 256))

CONFIG = EngineConfig(
    model_path=None,
    device=Device.SIMULATED,
    max_model_len=4096,
    max_num_batched_tokens=2048,
    max_num_seqs=RUNNING,
    initial_batched_tokens=2048,
    initial_running_seqs=RUNNING,
    num_kv_blocks=20_000,
    vocab_size=32_000,
    eos_token_ids=(0,),
)


class NoDevice:
    """Answers at once, and keeps the time that takes apart."""

    def __init__(self) -> None:
        self.spent_s = 0.0

    def execute(self, output: SchedulerOutput) -> RunnerOutput:
        started = time.process_time()
        sampled = tuple([(chunk.request_id, 7) for chunk in output.chunks if chunk.samples])
        self.spent_s += time.process_time() - started
        return RunnerOutput(sampled=sampled)

    def wipe(self, block_ids: Sequence[int]) -> None:
        """Nothing is there."""

    def close(self) -> None:
        """Nothing is there."""


class NoSocket:
    """Encodes messages as the real channel does and drops them."""

    def __init__(self) -> None:
        self._encoder = msgspec.msgpack.Encoder()

    def send(self, message: FromEngine) -> None:
        self._encoder.encode(message)

    def wait(self, timeout_s: float) -> bool:
        return False

    def pending(self) -> Iterator[ToEngine]:
        return iter(())


class BusyEngine:
    """An engine loop with all seats taken and decoding, and a full queue.

    Args:
        waiting: Requests in the queue.
    """

    def __init__(self, waiting: int = WAITING) -> None:
        self.scheduler = Scheduler(CONFIG)
        self._device = NoDevice()
        self._loop = EngineLoop(self.scheduler, self._device, NoSocket(), MonotonicClock())
        rng, now_s = random.Random(1), time.monotonic()
        for request_id in range(RUNNING + waiting):
            self.scheduler.add(_request(request_id, rng), now_s)
        for _ in range(WARM_UP):
            self.timed_step()

    def timed_step(self) -> float:
        """Seconds of processor time of one step, the device's left out."""
        started, device_s = time.process_time(), self._device.spent_s
        self._loop.turn()
        return time.process_time() - started - (self._device.spent_s - device_s)


class PrefillingEngine:
    """A scheduler all of whose seats hold prompts that take hundreds of steps.

    Args:
        tenants: As many, each with one.
    """

    def __init__(self, tenants: int = RUNNING) -> None:
        blocks = tenants * (PROMPT // CONFIG.block_size + 1)
        self.scheduler = Scheduler(replace(CONFIG, num_kv_blocks=blocks, prefix_caching=False))
        self._device = NoDevice()
        for request_id in range(tenants):
            request = Request(
                request_id=request_id,
                prompt_token_ids=(1 + request_id,) * PROMPT,
                sampling=SamplingParams(seed=request_id, max_tokens=1),
                cache_scope=CacheScope(tenant=f"tenant {request_id}"),
            )
            self.scheduler.add(request, 0.0)
        while self.scheduler.num_waiting:
            self.timed_step()

    def timed_step(self) -> float:
        """Seconds of processor time of one step."""
        started = time.process_time()
        self.scheduler.update(self._device.execute(self.scheduler.schedule(0.0)), 0.0)
        return time.process_time() - started


def audit_beats(blocks: int = AUDITED_BLOCKS) -> list[float]:
    """Seconds of processor time of each part of an idle audit, half of the blocks cached."""
    pool = BlockPool(blocks, CONFIG.block_size)
    text = range(blocks // 2 * CONFIG.block_size)
    pool.admit(0, text, CacheScope(), 0.0)
    pool.fill(0, text, len(text))
    pool.release(0, 0.0)
    audit, spent, is_complete = pool.audit(), list[float](), False
    while not is_complete:
        started = time.process_time()
        is_complete = pool.audit_more(audit)
        spent.append(time.process_time() - started)
    return spent


def _request(request_id: int, rng: random.Random) -> Request:
    return Request(
        request_id=request_id,
        prompt_token_ids=(request_id % 31_000 + 1, *TEXT[: rng.randint(15, 255)]),
        sampling=SamplingParams(seed=request_id, max_tokens=rng.randint(200, 800)),
        tier=Tier.BATCH if request_id % 4 == 0 else Tier.INTERACTIVE,
        cache_scope=CacheScope(tenant=f"tenant {request_id % TENANTS}"),
    )


def main() -> None:
    engine = BusyEngine()
    busy = f"{engine.scheduler.num_running} running, {engine.scheduler.num_waiting} waiting"
    _tell(f"host time of a step at {busy}", [engine.timed_step() for _ in range(STEPS)])
    prompts = PrefillingEngine()
    _tell(
        f"host time of a step of prompts of {RUNNING} tenants",
        [prompts.timed_step() for _ in range(PROMPT_STEPS)],
    )
    _tell(f"a part of the idle audit of {AUDITED_BLOCKS} blocks", audit_beats())


def _tell(what: str, spent_s: list[float]) -> None:
    ordered = sorted(1e3 * each for each in spent_s)
    median, late = statistics.median(ordered), ordered[int(0.95 * len(ordered))]
    print(f"{what}: median {median:.3f} ms, p95 {late:.3f} ms")


if __name__ == "__main__":
    main()
