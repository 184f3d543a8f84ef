"""Host time of one step: scheduling, bookkeeping and the report, device time left out.

    python -m bench.scheduling

prints the median and the 95th percentile over 300 steps with 256 running and 10,000 waiting
requests of 100 tenants in both tiers, while requests end and others get in.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator, Sequence

import msgspec

from paceline_engine.clock import MonotonicClock
from paceline_engine.config import Device, EngineConfig
from paceline_engine.engine.loop import EngineLoop
from paceline_engine.message import FromEngine, ToEngine
from paceline_engine.request import CacheScope, Request, Tier
from paceline_engine.runner.base import RunnerOutput
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.output import SchedulerOutput
from paceline_engine.scheduler.scheduler import Scheduler

RUNNING = 256
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
    spent = sorted(1e3 * engine.timed_step() for _ in range(STEPS))
    print(
        f"host time of a step at {engine.scheduler.num_running} running, "
        f"{engine.scheduler.num_waiting} waiting: "
        f"median {statistics.median(spent):.3f} ms, p95 {spent[int(0.95 * STEPS)]:.3f} ms"
    )


if __name__ == "__main__":
    main()
