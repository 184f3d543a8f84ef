"""Shares of tokens over 1,000 steps under saturation, and that nobody starves."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from paceline_engine.config import EngineConfig
from paceline_engine.request import CacheScope, Request, Tier
from paceline_engine.runner.base import RunnerOutput
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.output import SchedulerOutput
from paceline_engine.scheduler.scheduler import Scheduler
from tests.support.engine_config import engine_config

STEPS = 1000
PARTIES = ((Tier.INTERACTIVE, "a"), (Tier.INTERACTIVE, "b"), (Tier.BATCH, "c"))
Party = tuple[Tier, str]


class Saturated:
    """Every party always has requests waiting; counts the tokens each is served."""

    def __init__(self, config: EngineConfig, parties: tuple[Party, ...], seed: int) -> None:
        self.scheduler = Scheduler(config)
        self.served: Counter[Party] = Counter()
        self.first_run_s: dict[int, float] = {}
        self.now_s = 0.0
        self.outputs: dict[Party, tuple[int, int]] = {}
        self._rng = random.Random(seed)
        self._ids = itertools.count()
        self._party: dict[int, Party] = {}
        self._computed: Counter[int] = Counter()
        self._once: set[int] = set()
        for party in parties * 24:
            self.add(party)

    def add(
        self,
        party: Party,
        prompt: int | None = None,
        output: int | None = None,
        *,
        again: bool = True,
    ) -> int:
        """Queues a request, and another one at its end if it is to be done again."""
        request_id = next(self._ids)
        if not again:
            self._once.add(request_id)
        self._party[request_id] = party
        request = Request(
            request_id=request_id,
            prompt_token_ids=(1,) * (prompt or self._rng.randint(1, 120)),
            sampling=SamplingParams(
                seed=request_id,
                max_tokens=output or self._rng.randint(*self.outputs.get(party, (1, 60))),
                ignore_eos=True,
            ),
            tier=party[0],
            cache_scope=CacheScope(tenant=party[1]),
        )
        self.scheduler.add(request, self.now_s)
        return request_id

    def step(self) -> SchedulerOutput:
        step = self.scheduler.schedule(self.now_s)
        for chunk in step.chunks:
            new = max(0, chunk.end - max(chunk.start, self._computed[chunk.request_id]))
            self._computed[chunk.request_id] += new
            self.served[self._party[chunk.request_id]] += new
        for request_id in step.started:
            self.first_run_s[request_id] = self.now_s
        sampled = tuple((chunk.request_id, 7) for chunk in step.chunks if chunk.samples)
        self.now_s += 1e-3
        for output in self.scheduler.update(RunnerOutput(sampled=sampled), self.now_s):
            if output.finish_reason is not None and output.request_id not in self._once:
                self.add(self._party[output.request_id])
        return step


def saturated(parties: tuple[Party, ...], seed: int = 0, **changes: object) -> Saturated:
    config = engine_config(
        **{
            "prefix_caching": False,
            "max_num_batched_tokens": 128,
            "max_num_seqs": 16,
            "num_kv_blocks": 256,
            **changes,
        }
    )
    return Saturated(config, parties, seed)


@pytest.mark.behaviour(
    "under saturation tenants and tiers get their weights' share of tokens within 10 %",
    report="no peer has a share per tenant or between tiers",
)
@pytest.mark.parametrize(("batch_weight", "heavy"), [(0.25, 3.0), (0.1, 1.0), (1.0, 0.5)], ids=str)
@pytest.mark.parametrize(
    "scarce", [{}, {"num_kv_blocks": 48}, {"max_num_batched_tokens": 32}], ids=str
)
def test_shares_over_1000_steps(batch_weight: float, heavy: float, scarce: dict[str, int]) -> None:
    made = saturated(PARTIES, batch_weight=batch_weight, tenant_weights=(("a", heavy),), **scarce)
    for _ in range(STEPS):
        made.step()
    a, b, c = (made.served[party] for party in PARTIES)
    assert a / b == pytest.approx(heavy, rel=0.1)
    assert c / (a + b) == pytest.approx(batch_weight, rel=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_shares_where_one_tenant_draws_1000_tokens_and_the_other_50(seed: int) -> None:
    """From the first step on: nothing is known yet of how long outputs are."""
    lengthy, brief = PARTIES[:2]
    made = saturated((), seed, num_kv_blocks=2048, max_model_len=4096)
    made.outputs = {lengthy: (1000, 1000), brief: (50, 60)}
    for party in (lengthy, brief) * 24:
        made.add(party)
    for _ in range(STEPS):
        made.step()
    assert made.served[lengthy] / made.served.total() == pytest.approx(0.5, rel=0.1)


def test_many_tenants_get_equal_shares() -> None:
    parties = tuple((Tier.INTERACTIVE, f"tenant {index}") for index in range(10))
    made = saturated(parties)
    for _ in range(STEPS):
        made.step()
    mean = sum(made.served.values()) / len(parties)
    assert all(made.served[party] == pytest.approx(mean, rel=0.1) for party in parties)


@pytest.mark.behaviour(
    "no request starves under any mix: once due it runs when those due before it have",
    report="vllm #39734, #20608: requests that wait for ever behind others",
)
@pytest.mark.parametrize("batch_weight", [0.25, 1e-3])
def test_a_batch_backlog_of_any_age_does_not_delay_a_light_interactive_load(
    batch_weight: float,
) -> None:
    made = saturated(
        (),
        max_num_seqs=8,
        batch_weight=batch_weight,
        interactive_max_wait_s=0.1,
        batch_max_wait_s=0.2,
    )
    for _ in range(500):
        made.add((Tier.BATCH, "c"))
    probes: dict[int, float] = {}
    for step in range(1500):
        if step > 300 and step % 25 == 0:
            probes[made.add((Tier.INTERACTIVE, "a"), 10, 5, again=False)] = made.now_s
        made.step()
    waits = sorted(made.first_run_s.get(i, made.now_s) - since for i, since in probes.items())
    assert waits[len(waits) // 2] <= 0.01
    assert waits[-1] <= 0.06


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 1000),
    tier=st.sampled_from(Tier),
    prompt=st.integers(1, 200),
    batch_weight=st.sampled_from([1e-6, 0.25, 10.0]),
    blocks=st.integers(16, 64),
)
@example(seed=0, tier=Tier.BATCH, prompt=50, batch_weight=1e-6, blocks=64)
def test_nobody_starves(
    seed: int, tier: Tier, prompt: int, batch_weight: float, blocks: int
) -> None:
    """One request of a tenant whose weight is next to nothing, in a flood of all others."""
    made = saturated(
        PARTIES,
        seed,
        batch_weight=batch_weight,
        tenant_weights=(("poor", 1e-6),),
        num_kv_blocks=blocks,
        interactive_max_wait_s=0.01,
        batch_max_wait_s=0.2,
    )
    for _ in range(20):
        made.step()
    poor, received_s = made.add((tier, "poor"), prompt, output=5), made.now_s
    for _ in range(2500):
        made.step()
        if poor in made.first_run_s:
            break
    assert made.first_run_s[poor] - received_s < 2.5
