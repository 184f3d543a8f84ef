"""Host time of one scheduling step, device time left out.

    python -m bench.scheduling

prints the median and the 95th percentile over 300 steps with 256 running and 10,000 waiting
requests of 100 tenants in both tiers, while requests end and others get in.
"""

from __future__ import annotations

import random
import statistics
import time

from paceline_engine.config import Device, EngineConfig
from paceline_engine.request import CacheScope, Request, Tier
from paceline_engine.runner.base import RunnerOutput
from paceline_engine.sampling import SamplingParams
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


def busy_scheduler() -> Scheduler:
    """All seats taken and decoding, the queue full."""
    made = Scheduler(CONFIG)
    rng = random.Random(1)
    for request_id in range(RUNNING + WAITING):
        made.add(_request(request_id, rng), now_s=0.0)
    for _ in range(WARM_UP):
        timed_step(made, now_s=0.5)
    return made


def _request(request_id: int, rng: random.Random) -> Request:
    return Request(
        request_id=request_id,
        prompt_token_ids=(request_id % 31_000 + 1, *TEXT[: rng.randint(15, 255)]),
        sampling=SamplingParams(seed=request_id, max_tokens=rng.randint(200, 800)),
        tier=Tier.BATCH if request_id % 4 == 0 else Tier.INTERACTIVE,
        cache_scope=CacheScope(tenant=f"tenant {request_id % TENANTS}"),
    )


def timed_step(made: Scheduler, now_s: float) -> float:
    """Decides a step and applies its results; returns the seconds of processor time."""
    started = time.process_time()
    step = made.schedule(now_s)
    decided = time.process_time()
    sampled = tuple((chunk.request_id, 7) for chunk in step.chunks if chunk.samples)
    resumed = time.process_time()
    made.update(RunnerOutput(sampled=sampled), now_s)
    made.observe(step, 0.02)
    return time.process_time() - resumed + decided - started


def main() -> None:
    made = busy_scheduler()
    spent = sorted(1e3 * timed_step(made, 1.0 + 0.02 * index) for index in range(STEPS))
    print(
        f"scheduling and bookkeeping at {made.num_running} running, {made.num_waiting} waiting: "
        f"median {statistics.median(spent):.3f} ms, p95 {spent[int(0.95 * STEPS)]:.3f} ms"
    )


if __name__ == "__main__":
    main()
