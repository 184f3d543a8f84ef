"""The simulated engine's meter counts what the real server counts, for the same work.

Both are told the same random life of many requests; what the operator reads of either must be
the same window after window.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from paceline_engine.message import LoopState, StepStats
from paceline_engine.request import Tier
from paceline_engine.runner import profiles as engine_profiles
from paceline_engine.runner.simulated import step_seconds
from paceline_engine.server import metric_names
from paceline_engine.server.admin_wire import Slo
from paceline_engine.server.admin_wire import SloMetric as WireMetric
from paceline_engine.server.loop_metrics import LoopCollector
from paceline_engine.server.metric_families import RequestMetrics
from paceline_engine.server.request_meter import Metering, RequestMeter
from paceline_engine.server.request_record import Identity
from paceline_engine.server.slo import SloBoard
from paceline_operator.api.v1alpha1 import SloMetric
from paceline_operator.api.v1alpha1 import Tier as ObjectiveTier
from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.autopilot.vocabulary.window import Counter, Latency, StepClass, Window, merge
from paceline_operator.metrics import names
from paceline_operator.metrics.exposition import (
    COUNTERS,
    HISTOGRAMS,
    UNREAD,
    Exposition,
    Totals,
    parse,
)
from paceline_operator.metrics.increase import increase
from paceline_operator.simulator import profiles
from paceline_operator.simulator.metering.edges import EDGES
from paceline_operator.simulator.metering.meter import NO_LOAD, Meter
from paceline_operator.simulator.request import Request
from paceline_operator.simulator.sink import Served

OBJECTIVES = tuple(
    Objective(
        name=f"{tier.value}-{metric.value}-{place}",
        metric=metric,
        target_ms=target_ms,
        percentile=percentile,
        tier=tier,
    )
    for tier in ObjectiveTier
    for metric, target_ms, percentile, place in (
        (SloMetric.TTFT, 700, 95, 1),
        (SloMetric.TTFT, 150, 50, 2),
        (SloMetric.ITL, 110, 80, 1),
        (SloMetric.ITL, 71, 60, 2),
        (SloMetric.TPOT, 65, 90, 1),
        (SloMetric.E2E, 2500, 95, 1),
    )
)


def test_edges_are_the_engines() -> None:
    families = {family.full_name: family for family in metric_names.FAMILIES}
    engine = {latency: families[name].buckets for name, latency in HISTOGRAMS.items()}
    assert engine == EDGES
    assert set(EDGES) == set(Latency)


def test_refusals_that_are_no_load_are_the_engines() -> None:
    assert {*metric_names.REDIRECT_REASONS, metric_names.NEVER_FITS} == NO_LOAD


@pytest.mark.parametrize("name", sorted(engine_profiles.PROFILES))
def test_published_profiles_are_the_engines(name: str) -> None:
    real, made = engine_profiles.PROFILES[name], profiles.PROFILES[name]
    assert made.kv_capacity_tokens == real.kv_capacity_tokens
    for prefill, rows, kv_tokens in ((0, 1, 0), (0, 200, 90_000), (512, 7, 800), (8192, 0, 0)):
        taken_s = step_seconds(real.law, prefill + rows, kv_tokens)
        assert made.law.step_ms(prefill, rows, kv_tokens, 0) / 1e3 == pytest.approx(taken_s)


class Timer:
    """A pending call of the timeline."""

    def __init__(self, due_s: float, callback: Callable[[], None]) -> None:
        self.due_s, self.callback = due_s, callback
        self.alive = True

    def cancel(self) -> None:
        self.alive = False


class Timeline:
    """A clock with timers, moved by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self._timers: list[Timer] = []

    def clock(self) -> float:
        return self.now_s

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(self.now_s + delay, callback)
        self._timers.append(timer)
        return timer

    def move(self, to_s: float) -> None:
        self.now_s = to_s
        due = [timer for timer in self._timers if timer.due_s <= to_s]
        self._timers = [timer for timer in self._timers if timer.due_s > to_s]
        for timer in due:
            if timer.alive:
                timer.callback()


@dataclass(eq=False)
class Life:
    """One request in both worlds."""

    served: Served
    meter: RequestMeter
    output_tokens: int
    late_gaps: list[int]
    emitted_s: list[float] = field(default_factory=list)


class RealServer:
    """The real server's metrics, without a server."""

    def __init__(self, timeline: Timeline) -> None:
        self.metrics = RequestMetrics("m")
        self.board = SloBoard("m")
        self.state = LoopState(0, 0, 0, 0, 0, 0, 0, 0)
        self.loop = LoopCollector(
            "m", state=lambda: self.state, revision=lambda: 0, block_size=16, num_kv_blocks=100
        )
        self.metrics.registry.register(self.board)
        self.metrics.registry.register(self.loop)
        self.metering = Metering(
            metrics=self.metrics,
            board=self.board,
            clock=timeline.clock,
            call_later=timeline.call_later,
        )
        self.board.replace(
            tuple(
                Slo(
                    name=each.name,
                    tier=each.tier.value,
                    metric=WireMetric(each.metric.value),
                    target_ms=each.target_ms,
                    percentile=each.percentile,
                )
                for each in OBJECTIVES
            )
        )

    def read(self) -> Exposition:
        return parse(self.metrics.render().decode())

    def total(self, name: str) -> float:
        """Sum of a name's samples, over all labels."""
        families = self.metrics.registry.collect()
        return sum(each.value for found in families for each in found.samples if each.name == name)

    def goodput(self, tier: str) -> tuple[float | None, ...]:
        return tuple(
            self.metrics.registry.get_sample_value(
                names.GOODPUT.full_name, {"model_name": "m", "tier": tier, "outcome": outcome}
            )
            for outcome in ("good", "bad")
        )


class BothWorlds:
    """Random work, told to the real server's metrics and to the meter."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.time = Timeline()
        self.real = RealServer(self.time)
        self.made = Meter(OBJECTIVES, self.time.now_s)
        self.waiting: list[Life] = []
        self.running: list[Life] = []
        self.preempted: list[Life] = []
        self.refused = self.refused_for_want = 0
        self.preemptions = self.prefix_queries_tokens = self.prefix_hits_tokens = 0
        self.made.follow(self)

    def arrive(self) -> None:
        tier = self.draw.choice(list(Tier))
        prompt_tokens = self.draw.randrange(1, 3_000)
        reason = self.draw.choice([None] * 14 + list(metric_names.REJECTION_REASONS))
        if reason not in NO_LOAD:
            self.real.metering.offer(tier, prompt_tokens)
            self.made.received(tier.value, prompt_tokens)
        if reason is None:
            self.admit(tier, prompt_tokens)
            return
        self.made.refused(tier.value, reason)
        self.refused += 1
        is_own = tier is Tier.INTERACTIVE and reason in metric_names.OVERLOAD_REASONS
        self.refused_for_want += is_own
        if reason in metric_names.REDIRECT_REASONS:
            self.real.metering.redirect(reason, tier)
        elif reason == metric_names.NEVER_FITS:
            self.real.metrics.of(tier).rejected(reason)
        else:
            self.real.metering.refuse(reason, tier)

    def admit(self, tier: Tier, prompt_tokens: int) -> None:
        now_s, output_tokens = self.time.now_s, self.draw.randrange(1, 40)
        request = Request(now_s, prompt_tokens, output_tokens, tier=tier.value)
        served = Served(request, self.draw.getrandbits(60), now_s)
        meter = self.real.metering.admit(now_s, prompt_tokens, Identity(tier=tier))
        self.made.admitted(served)
        late_gaps = [0] * len(self.made.itl_targets_ms)
        self.waiting.append(Life(served, meter, output_tokens, late_gaps))

    def step(self) -> None:
        """One step of everything that runs, and of some prompts."""
        starting = [life for life in self.waiting if self.draw.random() < 0.4]
        resumed = [life for life in self.preempted if self.draw.random() < 0.3]
        for life in starting:
            life.served.started_s = self.time.now_s
        decoding = list(self.running)
        if not starting and not resumed and not decoding:
            self.time.move(self.time.now_s + self.draw.expovariate(2.0))
            return
        seconds = self.draw.lognormvariate(-3.0, 0.7)
        began_s = self.time.now_s
        self.time.move(began_s + seconds)
        self.tell(seconds, starting, resumed, decoding)
        for life in starting:
            self.first_token(life)
        for life in resumed:
            self.preempted.remove(life)
            self.running.append(life)
            gap_s = self.time.now_s - life.emitted_s[-1]
            self.emit(life, gap_s)
            self.made.gap(life.served, gap_s)
        for life in decoding:
            self.emit(life, seconds)
        for life in list(self.running):
            if len(life.emitted_s) >= life.output_tokens:
                self.complete(life)

    def tell(
        self, seconds: float, starting: list[Life], resumed: list[Life], decoding: list[Life]
    ) -> None:
        batch = sum(life.served.request.tier == "batch" for life in decoding)
        prefill = sum(life.served.request.prompt_tokens for life in (*starting, *resumed))
        kv_tokens, context = self.draw.randrange(1, 90_000), self.draw.randrange(1, 10**7)
        full = self.draw.random() < 0.3
        step_class = StepClass.DECODE_ONLY
        if prefill:
            step_class = StepClass.MIXED if decoding else StepClass.PREFILL_ONLY
            self.made.step(
                end_s=self.time.now_s, seconds=seconds, prefill_tokens=prefill,
                interactive_rows=len(decoding) - batch, batch_rows=batch, kv_tokens=kv_tokens,
                chunk_context=context, at_budget=full,
            )  # fmt: skip
        else:
            context = 0
            self.made.stretch(
                start_s=self.time.now_s - seconds, steps=1, batch_rows=batch, first_s=seconds,
                interactive_rows=len(decoding) - batch, kv_tokens=kv_tokens, growth_s=1e-3,
                at_budget=full,
            )  # fmt: skip
        evicted = self.evict()
        self.real.loop.steps.add(
            StepStats(
                step_class=step_class.value,
                duration_s=seconds,
                prefill_tokens=prefill,
                decode_rows=len(decoding),
                resident_kv_tokens=kv_tokens,
                chunk_context=context,
                at_budget=full,
                preemptions=evicted,
                sampled_tokens=0,
            )
        )
        self.look_up()

    def evict(self) -> int:
        """Some that run now will have to begin again after this step."""
        evicted = sum(self.draw.random() < 0.05 for _ in range(3))
        self.preemptions += evicted
        return evicted

    def look_up(self) -> None:
        self.prefix_queries_tokens += 100
        self.prefix_hits_tokens += self.draw.randrange(100)
        self.real.state = LoopState(
            0, 0, 0, 0, 0, 0, 0, 0, self.prefix_queries_tokens, self.prefix_hits_tokens
        )

    def first_token(self, life: Life) -> None:
        self.waiting.remove(life)
        self.running.append(life)
        served, now_s = life.served, self.time.now_s
        served.first_s = served.last_s = now_s
        life.meter.queued(served.started_s - served.received_s)
        life.meter.tokens(1)
        life.meter.emitted()
        life.emitted_s.append(now_s)
        self.made.first_token(served)

    def emit(self, life: Life, gap_s: float) -> None:
        life.meter.tokens(1)
        life.meter.emitted()
        life.emitted_s.append(self.time.now_s)
        for place, target_ms in enumerate(self.made.itl_targets_ms):
            life.late_gaps[place] += gap_s * 1e3 > target_ms

    def end(self, life: Life, outcome: str) -> None:
        served = life.served
        served.ended_s = self.time.now_s
        served.tokens = len(life.emitted_s)
        served.gaps = max(0, served.tokens - 1)
        served.late_gaps = tuple(life.late_gaps)
        served.last_s = life.emitted_s[-1] if life.emitted_s else None
        self.made.ended(served, outcome)

    def complete(self, life: Life) -> None:
        self.running.remove(life)
        life.meter.complete("length")
        self.end(life, "length")

    def abandon(self) -> None:
        """Somebody leaves, or something of ours fails."""
        place = self.draw.choice([self.waiting, self.running, self.preempted])
        if place:
            life = place.pop(self.draw.randrange(len(place)))
            outcome = self.draw.choice(["abort", "abort", "error"])
            life.meter.abandon(outcome)
            self.end(life, outcome)

    def preempt(self) -> None:
        if self.running:
            life = self.running.pop(self.draw.randrange(len(self.running)))
            self.preempted.append(life)

    def wait(self) -> None:
        """A part of the time passes in which nothing is emitted."""
        if not self.running:
            self.time.move(self.time.now_s + self.draw.uniform(0.0, 0.2))

    def act(self) -> None:
        chosen = (self.step,) * 8 + (self.arrive,) * 4 + (self.abandon, self.preempt, self.wait)
        self.draw.choice(chosen)()


def same(made: object, real: object) -> None:
    assert made == pytest.approx(real, rel=1e-9, abs=1e-9)


def compare(worlds: BothWorlds, real: Totals) -> Window:
    """Hold what the operator reads of both against each other; returns the meter's."""
    made = worlds.made.take(worlds.time.now_s)
    same(_counted(made.counters), _counted(real.counters))
    # The meter counts every refusal, the operator reads those that objectives count as missed.
    assert made.counters.get(Counter.REQUESTS_REJECTED, 0) == worlds.refused
    assert real.counters.get(Counter.REQUESTS_REJECTED, 0) == worlds.refused_for_want
    worlds.refused = worlds.refused_for_want = 0
    for found, wanted in ((made.histograms, real.histograms), (made.batch, real.batch)):
        filled = {latency: h for latency, h in wanted.items() if h.samples}
        read = {latency: h for latency, h in found.items() if latency not in UNREAD}
        assert {k: (h.edges, h.counts) for k, h in read.items()} == {
            k: (h.edges, h.counts) for k, h in filled.items()
        }
        same({k: h.total for k, h in read.items()}, {k: h.total for k, h in filled.items()})
    filled = {kind: sums.sums for kind, sums in real.steps.items() if sums.count}
    assert made.steps.keys() == filled.keys()
    for kind, sums in filled.items():
        assert made.steps[kind].sums == pytest.approx(sums, rel=1e-9, abs=1e-3)
    assert made.slo == real.slo
    return made


def compare_unread(worlds: BothWorlds, made: Window) -> None:
    """The same of what engines tell beside that, from the beginning."""
    for name, counter in COUNTERS.items():
        if counter in UNREAD:
            same(made.count(counter), worlds.real.total(name))
    for name, latency in HISTOGRAMS.items():
        if latency in UNREAD:
            found = made.histogram(latency)
            same(found.samples, worlds.real.total(f"{name}_count"))
            same(found.total, worlds.real.total(f"{name}_sum"))


def _counted(counters: Mapping[Counter, float]) -> dict[Counter, float]:
    apart = {Counter.REQUESTS_REJECTED, *UNREAD}
    return {k: v for k, v in counters.items() if v and k not in apart}


@pytest.mark.parametrize("seed", range(8))
def test_windows_and_goodput_are_those_of_the_real_server(seed: int) -> None:
    worlds = BothWorlds(seed)
    before, windows = worlds.real.read(), []
    for _ in range(5):
        for _ in range(worlds.draw.randrange(150)):
            worlds.act()
        after = worlds.real.read()
        windows.append(compare(worlds, increase(before, after)))
        before = after
    compare_unread(worlds, merge(windows))
    for tier in ("interactive", "batch"):
        found = worlds.made.goodput(tier)
        assert (found.good, found.bad) == worlds.real.goodput(tier)
        assert found.good
        assert found.bad
