"""The simulated engine decides as the real one: the same lives through both, step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from math import inf, isclose

import pytest

from paceline_operator.autopilot.vocabulary.window import BATCH, INTERACTIVE
from paceline_operator.simulator.engine import Engine, prefix_keys
from paceline_operator.simulator.engine_config import EngineConfig
from paceline_operator.simulator.metering.target import longest_s
from paceline_operator.simulator.request import Request
from paceline_operator.simulator.sink import Served
from tests.contract.happenings import Abort, Arrival, Change, Event, Life, life
from tests.contract.real_engine import RealEngine, Step, Story

LIVES = 1000
BATCHES = 5
OFTEN = ("stretches", "hits", "aborts", "odd gaps", "both wait", "over the cap", "short",
         "displaced", "at a target")  # fmt: skip
ITL_MS = (5, 9, 20)


class Log:
    """A sink that writes all steps down, those of a stretch one by one."""

    def __init__(self) -> None:
        self.engine: Engine | None = None
        self.steps: list[Step] = []
        self.served: dict[int, Served] = {}
        self.outcomes: dict[int, str] = {}
        self.first_s: dict[int, float] = {}
        self.odd_gaps: dict[int, list[float]] = {}
        self.stretches = 0
        self.seen: Counter[str] = Counter()

    def admitted(self, served: Served) -> None:
        self.served[served.id] = served

    def first_token(self, served: Served) -> None:
        assert served.first_s is not None
        self.first_s[served.id] = served.first_s

    def gap(self, served: Served, gap_s: float) -> None:
        self.odd_gaps.setdefault(served.id, []).append(gap_s)

    def ended(self, served: Served, outcome: str) -> None:
        assert served.id not in self.outcomes
        self.outcomes[served.id] = outcome

    def step(self, *, end_s, seconds, prefill_tokens, interactive_rows, batch_rows, kv_tokens,
             chunk_context, at_budget):  # fmt: skip
        rows = interactive_rows, batch_rows
        self.steps.append(
            Step(end_s, seconds, prefill_tokens, rows, kv_tokens, chunk_context, at_budget,
                 *self._inside())
        )  # fmt: skip

    def stretch(self, *, start_s, steps, interactive_rows, batch_rows, kv_tokens, first_s,
                growth_s, at_budget):  # fmt: skip
        assert steps >= 1
        rows = interactive_rows, batch_rows
        inside, end_s = self._inside(), start_s
        self.stretches += steps > 1
        for number in range(steps):
            seconds = first_s + number * growth_s
            end_s += seconds
            read = kv_tokens + number * sum(rows)
            self.steps.append(Step(end_s, seconds, 0, rows, read, 0, at_budget, *inside))
            inside = ((), None, None)

    def _inside(self):
        """Who was preempted for the step, and how the cache stands while it runs."""
        scheduler, plan = self.engine._scheduler, self.engine._loop._plan
        pool = scheduler.pool
        if plan.preempted:
            self.seen["short" if plan.is_short else "displaced"] += 1
        self.seen["protected runs"] += any(scheduler.running.protected)
        self.seen["set aside"] += scheduler.waiting.first_aside() is not None
        self.seen["remnant"] += bool(scheduler._remnants)
        self.seen["at a target"] += plan.target is not None and bool(plan.chunks)
        self.seen["both wait"] += all(scheduler.waiting.count)
        self.seen["over the cap"] += len(scheduler.running) > scheduler.limits.running_cap
        return (
            tuple(each.served.id for each in plan.preempted),
            (pool.queries_tokens, pool.hits_tokens),
            (pool.free, pool.cached, pool.held),
        )


def simulate(config: EngineConfig, events: tuple[Event, ...]) -> Log:
    log = Log()
    engine = log.engine = Engine(config, log, 0.0)
    engine.targets(ITL_MS)
    for event in events:
        if isinstance(event, Arrival):
            assert engine.submit(event.request, event.request_id, event.at_s) is None
        elif isinstance(event, Abort):
            engine.abort(event.request_id, event.at_s)
        elif isinstance(event, Change):
            engine.apply(
                max_num_batched_tokens=event.budget,
                max_num_running_seqs=event.running,
                step_time_target_ms=event.target_ms,
                now_s=event.at_s,
            )
    while engine.next_event_s < inf:
        engine.advance(engine.next_event_s)
    assert engine.is_empty
    return log


def check_steps(real: list[Step], simulated: list[Step]) -> None:
    for number, (step, ours) in enumerate(zip(real, simulated, strict=False)):
        theirs = step if ours.cache else replace(step, cache=None, blocks=None)
        assert isclose(theirs.end_s, ours.end_s, rel_tol=1e-9), number
        assert isclose(theirs.seconds, ours.seconds, rel_tol=1e-9), number
        assert replace(ours, end_s=theirs.end_s, seconds=theirs.seconds) == theirs, number
    assert len(real) == len(simulated)


def check_story(story: Story, served: Served, outcome: str) -> None:
    request = served.request
    tokens_s = [at_s for at_s in story.tokens_s if at_s <= story.left_s]
    is_whole = len(tokens_s) == len(story.tokens_s) and outcome == "length"
    assert served.tokens == len(tokens_s)
    assert served.preemptions == story.preemptions
    assert is_whole or (outcome == "abort" and story.left_s < inf)
    assert is_whole <= (len(tokens_s) <= request.output_tokens)
    if story.started_s is not None:
        assert isclose(served.started_s, story.started_s)
    if not tokens_s:
        assert served.first_s is None
        return
    assert isclose(served.first_s, tokens_s[0])
    assert isclose(served.last_s, tokens_s[-1])
    assert isclose(served.ended_s, story.left_s if outcome == "abort" else tokens_s[-1])
    assert served.cached_tokens == story.cached_tokens
    gaps = [after - before for before, after in pairwise(tokens_s)]
    assert served.gaps == len(gaps)
    assert served.late_gaps == tuple(
        sum(gap > longest_s(target_ms) for gap in gaps) for target_ms in ITL_MS
    )


def check_life(each: Life, prefix_tokens: int) -> Counter[str]:
    real = RealEngine(each.config, prefix_tokens)
    real.run(each.events)
    real.scheduler.check_idle()
    log = simulate(each.config, each.events)
    check_steps(real.steps, log.steps)
    assert log.served.keys() == real.stories.keys() == log.outcomes.keys()
    for request_id, story in real.stories.items():
        check_story(story, log.served[request_id], log.outcomes[request_id])
    pool = real.scheduler.pool
    log.seen["steps"] = len(log.steps)
    log.seen["stretches"] = log.stretches
    log.seen["hits"] = pool.hits_tokens
    log.seen["aborts"] = sum(outcome == "abort" for outcome in log.outcomes.values())
    log.seen["odd gaps"] = sum(map(len, log.odd_gaps.values()))
    log.seen["preempted often"] = sum(s.preemptions >= 4 for s in log.served.values())
    return log.seen


def check_lives(seeds: Iterable[int], prefix_tokens: int) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in seeds:
        try:
            seen += check_life(life(seed, prefix_tokens=prefix_tokens), prefix_tokens)
        except AssertionError as error:
            raise AssertionError(f"life {seed}: {error}") from error
    return seen


@pytest.fixture(params=[512, 32])
def prefix_tokens(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Tokens that a prefix id stands for: as it is, and few, so that prompts hold several."""
    monkeypatch.setattr(prefix_keys, "PREFIX_BLOCK_TOKENS", request.param)
    return request.param


@pytest.mark.parametrize("batch", range(BATCHES))
def test_both_decide_alike(batch: int, prefix_tokens: int) -> None:
    size = LIVES // BATCHES // 2
    first = (2 * batch + (prefix_tokens == 512)) * size
    seen = check_lives(range(first, first + size), prefix_tokens)
    assert all(seen[what] for what in OFTEN), seen


def test_both_set_aside_who_waits_for_protected_ones() -> None:
    seen = check_lives((98,), 512)
    assert seen["set aside"]
    assert seen["protected runs"]


def test_own_blocks_behind_a_gap_are_computed_twice() -> None:
    """Of a preempted request some blocks are still cached, but not those before them."""
    lengths = ((3, 67, INTERACTIVE), (13, 5, INTERACTIVE), (11, 6, BATCH), (14, 23, INTERACTIVE),
               (11, 26, INTERACTIVE))  # fmt: skip
    events = tuple(
        Arrival(
            1e-4 * bool(number), number, Request(0.0, prompt, output, (7,) * (number > 0), tier)
        )
        for number, (prompt, output, tier) in enumerate(lengths)
    )
    config = replace(
        life(3, prefix_tokens=512).config,
        block_size=4,
        num_kv_blocks=23,
        max_model_len=400,
        max_num_batched_tokens=64,
        initial_batched_tokens=64,
        max_num_seqs=6,
        initial_running_seqs=6,
        prefix_caching=True,
        step_time_target_ms=0.0,
    )
    assert check_life(Life(config, events), 512)["remnant"]
