"""Requests that were preempted as often as anyone may be, and who runs beside them."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from paceline_engine.request import CacheScope, Request, Tier
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.fair_queue import FairQueue
from paceline_engine.scheduler.running import MAX_PREEMPTIONS
from tests.engine.scheduler.harness import Harness
from tests.support.engine_config import engine_config

BLOCK = 16
POOL = 40
CONTEXT = POOL * BLOCK


def harness(**changes: object) -> Harness:
    sizes = {
        "num_kv_blocks": POOL,
        "block_size": BLOCK,
        "max_model_len": CONTEXT,
        "max_num_batched_tokens": 128,
        "max_num_seqs": 8,
        "prefix_caching": False,
    }
    return Harness(engine_config(**{**sizes, **changes}))


def request(
    request_id: int, tenant: str, prompt: int = 8, output: int = 8, tier: Tier = Tier.INTERACTIVE
) -> Request:
    return Request(
        request_id=request_id,
        prompt_token_ids=(1 + request_id % 20,) * prompt,
        sampling=SamplingParams(seed=request_id, max_tokens=output, ignore_eos=True),
        tier=tier,
        cache_scope=CacheScope(tenant=tenant),
    )


def add_protected(made: Harness, submitted: Request) -> None:
    """Queues a request as if it had been preempted as often as anyone may be."""
    made.add(submitted)
    sequence = made.scheduler.roster.find(submitted.request_id)
    assert sequence is not None
    sequence.preemptions = MAX_PREEMPTIONS


def steps_until_first(made: Harness, request_id: int, most: int = 3 * CONTEXT) -> int:
    for waited in range(most):
        if request_id in made.step().started:
            return waited
    raise AssertionError(f"request {request_id} waited for {most} steps")


@pytest.mark.behaviour(
    "beside a request that may not be preempted again others run in what it does not need yet: "
    "another tenant waits for no more steps than its own blocks hold tokens",
    report="own risk: such a request held all blocks it could ever need, and another tenant waited "
    "for 1,522 steps",
)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    after=st.integers(1, CONTEXT - 20),
    prompt=st.integers(1, 200),
    tier=st.sampled_from(Tier),
    output=st.integers(1, 100),
)
def test_another_tenant_waits_no_longer_than_its_own_room_takes_to_fill(
    after: int, prompt: int, tier: Tier, output: int
) -> None:
    made = harness()
    add_protected(made, request(0, "a", output=CONTEXT, tier=Tier.BATCH))
    for _ in range(after):
        made.step()
    made.add(request(1, "b", prompt, output, tier))
    waited = steps_until_first(made, 1)
    event("waited" if waited else "at once")
    assert waited <= (made.scheduler.pool.blocks_for(prompt) + 2) * BLOCK
    while made.scheduler.has_work:
        made.step()
    assert made.run.preemptions[0] == 0
    assert made.run.preemptions[1] <= MAX_PREEMPTIONS
    assert len(made.run.tokens[0]) == CONTEXT - 8


@pytest.mark.behaviour(
    "a request that waits until one that may not be preempted again has ended holds up nobody, "
    "not even of its own tenant; once it may run nobody later of its tenant passes it",
    report="own risk: by default all callers are one tenant, and nobody got in beside free seats "
    "and blocks, past the maximum wait",
)
@pytest.mark.parametrize("wait_s", [0.05, 1e6])
@pytest.mark.parametrize("tenant", ["a", "b"])
def test_who_waits_for_a_protected_request_holds_up_nobody(wait_s: float, tenant: str) -> None:
    """Due or not: it cannot run before the other has ended, whoever waits with it."""
    made = harness(interactive_max_wait_s=wait_s)
    add_protected(made, request(0, "a", output=400))
    made.step()
    add_protected(made, request(1, tenant, output=300))
    for request_id in (2, 3):
        made.add(request(request_id, tenant, prompt=60))
        assert steps_until_first(made, request_id) == 0
    for _ in range(20):
        made.step()
    made.add(request(4, "c"))
    assert steps_until_first(made, 4) == 0
    while 0 not in made.run.ends:
        assert 1 not in made.step().started
    assert steps_until_first(made, 1) == 0
    while made.scheduler.has_work:
        made.step()
    assert made.run.preemptions.total() == 0


@pytest.mark.parametrize("wait_s", [0.05, 1e6])
def test_who_may_run_again_is_passed_by_none_of_a_flood(wait_s: float) -> None:
    """Its tenant always has more waiting; they fill the pool, and it needs a third of that."""
    made = harness(interactive_max_wait_s=wait_s)
    add_protected(made, request(0, "a", output=300))
    made.step()
    add_protected(made, request(1, "a", prompt=200, output=150))
    waited = 0
    for request_id in range(2, 500):
        made.add(request(request_id, "a", prompt=70, output=20))
        started = made.step().started
        waited += 0 in made.run.ends
        if 1 in started:
            break
        if waited > 1:
            assert not started
    assert 0 < waited < 40
    while made.scheduler.has_work:
        made.step()
    assert made.run.preemptions[1] == 0


def test_protected_requests_get_in_in_order_of_arrival_not_of_size() -> None:
    made = harness()
    add_protected(made, request(0, "a", output=300))
    made.step()
    for request_id, output in ((1, 400), (2, 20)):
        add_protected(made, request(request_id, f"tenant {request_id}", output=output))
    started = []
    while made.scheduler.has_work:
        started.extend(made.step().started)
    assert started == [1, 2]


def test_who_was_set_aside_can_be_aborted_and_counts_as_waiting_until_then() -> None:
    made = harness()
    add_protected(made, request(0, "a", output=400))
    made.step()
    add_protected(made, request(1, "b", output=300))
    made.step()
    assert (made.scheduler.num_waiting, made.scheduler.waiting_tokens) == (1, 8)
    made.scheduler.abort([1], made.now_s)
    assert made.scheduler.num_waiting == 0
    assert not list(made.queue.all_set_aside())
    made.add(request(2, "b"))
    assert steps_until_first(made, 2) == 0
    while made.scheduler.has_work:
        made.step()
    assert 1 not in made.run.ends


def test_a_tenant_whose_request_is_set_aside_keeps_what_it_is_owed() -> None:
    """It waits all the while: nothing of what others are served is counted as its own."""
    made = harness()
    add_protected(made, request(0, "a", output=400))
    made.step()
    add_protected(made, request(1, "b", output=300))
    made.step()
    before = made.queue.share(Tier.INTERACTIVE, "b").tag
    for request_id in range(2, 12):
        made.add(request(request_id, "c", prompt=50, output=5))
    for _ in range(10):
        made.step()
    made.add(request(20, "b"))
    assert made.queue.share(Tier.INTERACTIVE, "b").tag == before


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    members=st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.sampled_from(Tier),
            st.integers(1, 250),
            st.integers(1, 300),
            st.booleans(),
            st.integers(0, 30),
        ),
        min_size=2,
        max_size=14,
    )
)
def test_with_any_number_of_protected_requests_all_end_and_none_is_preempted_again(
    members: list[tuple[str, Tier, int, int, bool, int]],
) -> None:
    made = harness(interactive_max_wait_s=0.5, batch_max_wait_s=2.0)
    protected: set[int] = set()
    for index, (tenant, tier, prompt, output, is_protected, gap) in enumerate(members):
        submitted = request(index, tenant, prompt, output, tier)
        if is_protected:
            add_protected(made, submitted)
            protected.add(index)
        else:
            made.add(submitted)
        for _ in range(gap):
            if made.scheduler.has_work:
                made.step()
    while made.scheduler.has_work:
        made.step()
    made.scheduler.check_idle()
    assert len(made.run.ends) == len(members)
    assert not protected & made.run.preemptions.keys()
    assert max(made.run.preemptions.values(), default=0) <= MAX_PREEMPTIONS
    queue: FairQueue = made.scheduler.roster.queue
    assert not list(queue.all_set_aside())
