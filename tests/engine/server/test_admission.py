from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_engine.request import Tier
from paceline_engine.server.admission import FIRST_OUTPUT_TOKENS, Admission
from paceline_engine.server.errors import NeverFitsError, OverloadedError
from paceline_engine.server.queue_limit import queue_limit
from paceline_engine.server.slo import SloBoard
from paceline_engine.server.ticket import Ask, Ticket


class Desk:
    """An admission with a clock that is set by hand: 10 requests, 1000 tokens."""

    def __init__(self, **limits: Any) -> None:
        self.now_s = 0.0
        given_limits = {"max_requests": 10, "max_tokens": 1000, **limits}
        limit_s = given_limits.pop("max_queue_s", None)
        given_limits["queue_limit"] = queue_limit(limit_s, SloBoard("m"))
        self.admission = Admission(clock=lambda: self.now_s, **given_limits)

    def enter(self, *prompts: int, tier: Tier = Tier.INTERACTIVE, **more: Any) -> list[Ticket]:
        return self.admission.enter(
            [Ask(each, **{"output_tokens": 10, **more}) for each in prompts], tier
        )

    def refusal(self, *prompts: int, **more: Any) -> OverloadedError:
        before = self.counts
        with pytest.raises(OverloadedError) as caught:
            self.enter(*prompts, **more)
        assert self.counts == before
        return caught.value

    @property
    def counts(self) -> tuple[int, int, int]:
        admission = self.admission
        return admission.requests, admission.tokens, admission.kv_tokens


@pytest.mark.parametrize(
    ("waiting", "new", "code"),
    [
        ([], [50], None),
        ([], [500], None),  # alone, it may be larger than the limit
        ([], [60, 40], None),
        ([10], [95], "queued_tokens"),
        ([1, 1], [1], None),
        ([1, 1, 1], [1], "queued_requests"),
        ([1, 1], [1, 1], "queued_requests"),
        ([100], [1], "queued_tokens"),
    ],
)
def test_limits(waiting: list[int], new: list[int], code: str | None) -> None:
    desk = Desk(max_requests=3, max_tokens=100)
    for each in waiting:
        desk.enter(each)
    if code is None:
        desk.enter(*new)
    else:
        refusal = desk.refusal(*new)
        assert (refusal.status, refusal.code) == (429, code)
        assert int(refusal.headers()["retry-after"]) >= 1


@pytest.mark.behaviour(
    "Admission counts prompts x choices, not HTTP calls",
    report="text-embeddings-inference #662: a list payload slipped past the concurrency limit",
)
@pytest.mark.parametrize(
    ("prompts", "choices"), [([1] * 6, 1), ([1], 6), ([1, 1], 3), ([1, 1, 1], 2)]
)
def test_prompts_times_choices_count(prompts: list[int], choices: int) -> None:
    desk = Desk()
    tickets = desk.enter(*prompts, choices=choices)
    assert len(tickets) == desk.admission.requests == 6
    assert desk.refusal(*prompts, choices=choices).code == "queued_requests"
    desk.enter(1, choices=4)
    assert desk.refusal(1).code == "queued_requests"


@pytest.mark.behaviour(
    "What can never fit is refused at once, with the numbers",
    report="vllm #39734: a request larger than the KV pool waits for ever",
)
@pytest.mark.parametrize(
    ("prompts", "choices", "said"),
    [
        ([1] * 11, 1, ["11 requests", "limit is 10"]),
        ([1, 1], 6, ["12 requests", "limit is 10"]),
        ([600, 500], 1, ["1100 prompt tokens", "limit is 1000"]),
        ([100, 100], 4, ["280 tokens of KV cache", "limit is 250"]),
    ],
)
def test_what_can_never_fit_is_the_callers_mistake(
    prompts: list[int], choices: int, said: list[str]
) -> None:
    desk = Desk(max_kv_tokens=250)
    with pytest.raises(NeverFitsError) as caught:
        desk.enter(*prompts, choices=choices)
    assert caught.value.status == 400
    assert all(each in caught.value.message for each in said), caught.value.message
    assert desk.counts == (0, 0, 0)


def test_choices_share_the_tokens_of_their_prompt() -> None:
    desk = Desk()
    first, *others = desk.enter(100, choices=3, output_tokens=20)
    assert desk.counts == (3, 100, 160)
    assert [each.shares_prompt for each in (first, *others)] == [False, True, True]
    for each in (*others, first):
        each.start()
        each.start()
    assert desk.counts == (0, 0, 160)
    for each in (*others, first):
        each.end(5)
        each.end(5)
    assert desk.counts == (0, 0, 0)


def test_projected_kv_holds_until_a_request_has_ended() -> None:
    desk = Desk(max_kv_tokens=300)
    held = desk.enter(50, output_tokens=100) + desk.enter(50, output_tokens=90)
    for each in held:
        each.start()
    refusal = desk.refusal(5, output_tokens=10)
    assert refusal.code == "projected_kv"
    assert "290 tokens of KV cache" in refusal.message
    assert "300" in refusal.message
    desk.enter(5, output_tokens=5)
    held[0].end(100)
    desk.enter(5, output_tokens=10)


def test_a_call_without_a_limit_is_projected_by_the_answers_so_far() -> None:
    desk = Desk(max_tokens=10**9)
    (first,) = desk.enter(10, output_tokens=10**6, is_limited=False)
    assert first.kv_tokens == 10 + FIRST_OUTPUT_TOKENS
    first.end(20)
    for _ in range(200):
        desk.enter(1)[0].end(20)
    (later,) = desk.enter(10, output_tokens=10**6, is_limited=False)
    assert later.kv_tokens == pytest.approx(10 + 2 * 20, abs=1)
    (short,) = desk.enter(10, output_tokens=7, is_limited=False)
    assert short.kv_tokens == 17


def test_a_call_that_nobody_limited_is_let_in_alone() -> None:
    desk = Desk(max_kv_tokens=100)
    (alone,) = desk.enter(10, output_tokens=10**6, is_limited=False)
    assert desk.refusal(1, output_tokens=1).code == "projected_kv"
    alone.end()
    desk.enter(1, output_tokens=1)


def drained(desk: Desk, tokens: int, every_s: float, times: int) -> None:
    """Lets prompts of that size get their first tokens one after the other."""
    waiting = desk.enter(*[tokens] * times)
    for each in waiting:
        desk.now_s += every_s
        each.start()
        each.end(1)


@pytest.mark.behaviour(
    "Retry-After of a 429 is computed from the measured drain",
    report="vLLM, SGLang: a full queue answers 503 and does not say when to come again",
)
def test_retry_after_says_when_the_call_would_fit() -> None:
    desk = Desk()
    drained(desk, 100, every_s=2.0, times=8)  # 50 tokens and half a request per second
    desk.enter(900)
    assert desk.refusal(400).retry_after_s == 6  # 300 tokens must leave
    assert desk.refusal(100 + 60).retry_after_s == 2
    desk.now_s += 1000.0  # nothing leaves any more
    assert desk.refusal(400).retry_after_s == 60
    full = Desk()
    drained(full, 10, every_s=2.0, times=8)
    full.enter(*[1] * 10)
    assert full.refusal(1, choices=3).retry_after_s == 6


def test_before_anything_is_measured_retry_after_is_the_wait_so_far() -> None:
    desk = Desk()
    desk.enter(900)
    assert desk.refusal(400).retry_after_s == 1
    desk.now_s += 25.0
    assert desk.refusal(400).retry_after_s == 25
    desk.now_s += 3600.0
    assert desk.refusal(400).retry_after_s == 60


def test_calls_that_came_one_by_one_do_not_make_a_burst_look_slow() -> None:
    desk = Desk(max_queue_s=1.0)
    for _ in range(30):
        (alone,) = desk.enter(10)
        desk.now_s += 0.2
        alone.start()
        alone.end(1)
        desk.now_s += 1.0
    desk.enter(*[100] * 8)
    desk.enter(1)  # by the calls before it, 800 tokens at 50 per second


def test_a_standstill_is_a_long_wait() -> None:
    desk = Desk(max_queue_s=4.0)
    drained(desk, 100, every_s=2.0, times=8)
    desk.enter(100)
    desk.now_s += 1e6
    refusal = desk.refusal(1)
    assert (refusal.code, refusal.retry_after_s) == ("queue_delay", 60)
    assert "3600.0 s of work" in refusal.message


def test_the_wait_before_a_call_is_limited_by_the_measured_drain() -> None:
    desk = Desk(max_queue_s=4.0)
    desk.enter(900)  # nothing was measured yet, so nothing is foretold
    desk.enter(50)
    desk = Desk(max_queue_s=4.0)
    drained(desk, 100, every_s=2.0, times=8)
    desk.enter(150)
    desk.enter(100)  # 3 s before it
    refusal = desk.refusal(1)  # 5 s before it
    assert (refusal.code, refusal.retry_after_s) == ("queue_delay", 1)
    assert "5.0 s of work" in refusal.message
    assert "4.0 s" in refusal.message


@pytest.mark.behaviour(
    "The batch tier is refused before the interactive one",
    report="vLLM, TGI: one queue limit for all, so a batch job locks interactive users out",
)
@pytest.mark.parametrize(
    ("fill", "one"),
    [
        ({"prompts": [1] * 8}, {"prompts": [1]}),
        ({"prompts": [790]}, {"prompts": [20]}),
        ({"prompts": [10], "output_tokens": 790}, {"prompts": [5], "output_tokens": 5}),
    ],
)
def test_batch_may_fill_only_its_share(fill: dict[str, Any], one: dict[str, Any]) -> None:
    def call(desk: Desk, tier: Tier, prompts: list[int], **more: Any) -> None:
        desk.enter(*prompts, tier=tier, **more)

    for filler in Tier:
        desk = Desk(max_kv_tokens=1000)
        call(desk, filler, **fill)
        with pytest.raises(OverloadedError, match=r"batch tier \(80% of it\)"):
            call(desk, Tier.BATCH, **one)
        call(desk, Tier.INTERACTIVE, **one)


def test_interactive_calls_do_not_wait_behind_batch_ones() -> None:
    desk = Desk(max_queue_s=5.0)
    drained(desk, 100, every_s=2.0, times=8)
    desk.enter(150, tier=Tier.BATCH)
    desk.enter(60, tier=Tier.BATCH)  # 3 s before it, and its share is 4 s
    assert desk.refusal(1, tier=Tier.BATCH).code == "queue_delay"  # 4.2 s
    desk.enter(200)
    desk.enter(1)  # 4 s of its own tier before it


def fill(desk: Desk, tenant: str, prompt: int = 1, **more: Any) -> int:
    """How many calls of a tenant get in before one is refused."""
    with pytest.raises(OverloadedError, match="of this tenant, whose share is"):  # noqa: PT012
        for count in range(1000):  # noqa: B007
            desk.admission.enter([Ask(prompt, 10)], tenant=tenant, **more)
    return count


@pytest.mark.behaviour(
    "One tenant cannot take all places of the queue",
    report="vLLM, SGLang: one queue for all, so whoever sends most locks the others out",
)
def test_tenants_share_the_last_half_of_a_limit() -> None:
    desk = Desk(max_requests=120, tenant_weights={"heavy": 2.0})
    assert fill(desk, "first") == 60
    assert fill(desk, "second") == 30
    assert fill(desk, "third") == 20
    tokens = Desk(max_requests=1000, max_tokens=1200, tenant_weights={"heavy": 2.0})
    assert [fill(tokens, name, 10) for name in ("first", "heavy")] == [60, 40]
    batch = Desk(max_requests=100, tenant_weights={})
    assert fill(batch, "first", tier=Tier.BATCH) == 40
    assert fill(batch, "first") == 10


def test_a_tenant_that_holds_nothing_is_let_in() -> None:
    desk = Desk(max_tokens=1000, tenant_weights={})
    desk.admission.enter([Ask(500, 10)], tenant="first")
    (large,) = desk.admission.enter([Ask(400, 10)], tenant="second")  # its share is 250
    with pytest.raises(OverloadedError):
        desk.admission.enter([Ask(10, 10)], tenant="second")
    large.end()
    desk.admission.enter([Ask(10, 10)], tenant="second")


def test_where_all_are_one_tenant_nothing_is_shared() -> None:
    desk = Desk()
    desk.enter(*[1] * 10)


calls = st.lists(
    st.tuples(
        st.lists(st.integers(1, 60), min_size=1, max_size=3),
        st.integers(1, 3),
        st.integers(1, 40),
        st.sampled_from(Tier),
        st.booleans(),
    ),
    max_size=30,
)


@given(calls, st.randoms(use_true_random=False))
def test_what_entered_leaves(made: list[Any], random: Any) -> None:
    desk = Desk(max_requests=8, max_tokens=200, max_kv_tokens=400, max_queue_s=30.0)
    inside: list[Ticket] = []
    for prompts, choices, output, tier, is_limited in made:
        desk.now_s += random.random()
        with contextlib.suppress(OverloadedError, NeverFitsError):
            inside += desk.enter(
                *prompts, tier=tier, choices=choices, output_tokens=output, is_limited=is_limited
            )
        for each in random.sample(inside, k=len(inside) // 2):
            each.start()
        if inside and random.random() < 0.6:
            inside.pop(random.randrange(len(inside))).end(random.choice([None, 3]))
        assert desk.admission.requests <= 8
        assert desk.admission.kv_tokens == sum(each.kv_tokens for each in inside)
    for each in inside:
        each.end()
    assert desk.counts == (0, 0, 0)
