from __future__ import annotations

from math import inf

import pytest

from paceline_engine.config import StepTimeLaw
from paceline_engine.message import StepStats
from paceline_engine.request import Tier
from paceline_engine.server.admission import Admission
from paceline_engine.server.errors import OverloadedError
from paceline_engine.server.prefill_rate import GUESSED_STEP_S, PrefillRate
from paceline_engine.server.ticket import Ask, Ticket

BUDGET = 100


def step(tokens: int, seconds: float, decode_rows: int = 0) -> StepStats:
    return StepStats(
        step_class="mixed",
        duration_s=seconds,
        prefill_tokens=tokens,
        decode_rows=decode_rows,
        resident_kv_tokens=0,
        chunk_context=0,
        at_budget=False,
        preemptions=0,
        sampled_tokens=0,
    )


@pytest.mark.parametrize(
    ("steps", "per_second"),
    [
        ([], BUDGET / GUESSED_STEP_S),
        ([step(0, 5.0, decode_rows=9)], BUDGET / GUESSED_STEP_S),  # tells nothing of prompts
        ([step(100, 4.0)], 25.0),
        ([step(100, 0.01)], 10_000.0),
        ([step(60, 0.5, decode_rows=40)], 120.0),
        ([step(10, 0.5)], 100.0),  # 20 to 200 by it: the guess stands
        ([step(10, 0.01)], 1000.0),  # at least so many
        ([step(10, 2.0)], 50.0),  # at most so many
    ],
)
def test_what_steps_tell(steps: list[StepStats], per_second: float) -> None:
    rate = PrefillRate(lambda: BUDGET)
    for each in steps:
        rate.add(each)
    assert rate.per_second() == pytest.approx(per_second)
    assert rate.is_measured == any(each.prefill_tokens for each in steps)


def test_later_steps_count_more() -> None:
    rate = PrefillRate(lambda: BUDGET)
    for seconds in [0.1] * 50 + [10.0] * 5:
        rate.add(step(BUDGET, seconds))
    assert rate.per_second() == pytest.approx(10.0, rel=0.2)


def test_a_simulated_device_is_known_before_it_runs() -> None:
    law = StepTimeLaw(base_ms=50.0, per_token_ms=1.5)
    assert PrefillRate(lambda: BUDGET, law).per_second() == pytest.approx(500.0)
    floored = StepTimeLaw(base_ms=0.0, per_token_ms=0.0, floor_ms=400.0)
    assert PrefillRate(lambda: BUDGET, floored).per_second() == pytest.approx(250.0)


class Burst:
    """An engine from its start on a virtual clock, and calls that come faster than it works."""

    PROMPT = 50

    def __init__(self, limit_s: float, step_s: float) -> None:
        self.now_s = 0.0
        self.step_s = step_s
        self.rate = PrefillRate(lambda: BUDGET)
        self.admission = Admission(
            10**6,
            10**9,
            queue_limit=lambda *_: limit_s,
            first_rate=self.rate,
            clock=lambda: self.now_s,
        )
        self.waiting: list[tuple[float, Ticket]] = []
        self.waits: list[tuple[float, float]] = []  # when it came, how long it waited
        self.refusals: list[OverloadedError] = []

    def call(self) -> None:
        try:
            (ticket,) = self.admission.enter([Ask(self.PROMPT, 10)], Tier.INTERACTIVE)
        except OverloadedError as refusal:
            self.refusals.append(refusal)
        else:
            self.waiting.append((self.now_s, ticket))

    def work(self, served: list[tuple[float, Ticket]]) -> None:
        """A step has ended; what was in it gets its first token."""
        self.rate.add(step(self.PROMPT * len(served), self.step_s))
        for came_s, ticket in served:
            self.waits.append((came_s, self.now_s - came_s))
            ticket.start()
            ticket.end(1)

    def run(self, seconds: float, every_s: float) -> None:
        """Calls come at an even pace; a step takes in what waits when it begins."""
        most = BUDGET // self.PROMPT
        next_call, next_end, served = 0.0, inf, list[tuple[float, Ticket]]()
        while self.now_s < seconds:
            self.now_s = min(next_call, next_end)
            if next_call <= next_end:
                self.call()
                next_call += every_s
            else:
                self.work(served)
                next_end = inf
            if next_end == inf and self.waiting:
                served, self.waiting = self.waiting[:most], self.waiting[most:]
                next_end = self.now_s + self.step_s


@pytest.mark.behaviour(
    "A limit on the wait holds from the first burst after the start, before a queue has drained",
    report="own finding: without a measured drain the limit let everything in",
)
@pytest.mark.parametrize("step_s", [0.05, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("limit_s", [4.0, 12.0])
def test_no_wait_is_longer_than_the_limit(limit_s: float, step_s: float) -> None:
    burst = Burst(limit_s, step_s)
    burst.run(120.0, every_s=step_s / 8)  # four times what it can do
    assert burst.refusals
    assert {refusal.code for refusal in burst.refusals} == {"queue_delay"}
    assert len(burst.waits) >= 0.6 * 2 * 120.0 / step_s  # and it is kept at work
    slower_than_guessed = max(1.0, step_s / GUESSED_STEP_S)
    for came_s, wait_s in burst.waits:
        is_guess = came_s <= step_s  # nothing has run yet
        assert wait_s <= limit_s * (slower_than_guessed if is_guess else 1.0) + 2 * step_s


def test_what_has_waited_for_long_counts_where_no_step_has_run() -> None:
    burst = Burst(limit_s=5.0, step_s=1.0)
    burst.call()
    burst.now_s = 4.9
    burst.call()
    assert not burst.refusals
    burst.now_s = 5.2
    burst.call()
    (refusal,) = burst.refusals
    assert (refusal.code, refusal.retry_after_s) == ("queue_delay", 1)


@pytest.mark.behaviour(
    "a wait for seats that others hold counts against --max-queue-seconds, fast prompts or not",
    report="own finding: four long outputs held all seats, and later calls were projected to wait "
    "0.2 s",
)
def test_seats_held_for_longer_than_the_limit() -> None:
    burst = Burst(limit_s=5.0, step_s=0.1)
    for _ in range(4):  # each runs at once, and from then on holds its seat
        burst.call()
        burst.now_s += 0.1
        burst.work([burst.waiting.pop()])
    came_s = burst.now_s
    while burst.now_s < came_s + 20.0:
        burst.call()
        burst.now_s += 0.5
    assert len(burst.waiting) == 11  # for 5 s nobody knew
    assert {refusal.code for refusal in burst.refusals} == {"queue_delay"}
    burst.work([burst.waiting.pop(0)])
    burst.call()
    assert len(burst.waiting) == 11


@pytest.mark.behaviour(
    "a long prompt under way is no queue that stands still: nobody is turned away for it",
    report="own finding: at a budget of 128 tokens 11 % of requests were turned away by engines "
    "that were busy less than half of the time",
)
def test_a_long_prompt_under_way_is_work_in_progress() -> None:
    burst = Burst(limit_s=6.0, step_s=0.05)
    for _ in range(20):  # short ones, two at a time, so that a drain was measured
        burst.call()
        burst.call()
        for _ in range(2):
            burst.now_s += 0.05
            burst.work([burst.waiting.pop(0)])
    (long,) = burst.admission.enter([Ask(50 * BUDGET, 10)], Tier.INTERACTIVE)
    for done in range(48):  # full steps of it
        burst.now_s += 0.05
        burst.rate.add(step(BUDGET, 0.05))
        if done % 8 == 0:
            burst.call()
    assert not burst.refusals
    long.start()


def test_batch_requests_that_stand_still_hold_up_no_interactive_one() -> None:
    burst = Burst(limit_s=5.0, step_s=0.1)
    burst.rate.add(step(BUDGET, 0.1))
    burst.admission.enter([Ask(Burst.PROMPT, 10)], Tier.BATCH)
    burst.now_s += 60.0
    for _ in range(2):
        burst.call()
    assert not burst.refusals
    with pytest.raises(OverloadedError):
        burst.admission.enter([Ask(Burst.PROMPT, 10)], Tier.BATCH)


def test_a_few_calls_at_the_start_are_let_in() -> None:
    burst = Burst(limit_s=10.0, step_s=1.0)
    for _ in range(20):
        burst.call()
    assert not burst.refusals
