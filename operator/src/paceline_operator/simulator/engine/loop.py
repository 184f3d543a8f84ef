"""An engine in time: steps follow each other as long as there is work."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from paceline_operator.simulator.engine.chance import Chance
from paceline_operator.simulator.engine.gauges import Gauges
from paceline_operator.simulator.engine.pace import Pace
from paceline_operator.simulator.engine.plan import StepPlan
from paceline_operator.simulator.engine.prefill_rate import PrefillRate
from paceline_operator.simulator.engine.scheduler import Scheduler
from paceline_operator.simulator.engine.speculation import NO_SPECULATION, Speculation
from paceline_operator.simulator.engine.streams import Streams
from paceline_operator.simulator.law import StepTime
from paceline_operator.simulator.sink import Sink

Change = Callable[[], None]
"""Made between two steps."""


class Loop:
    """Takes what has come, decides a step, runs it, and so on.

    Steps without prefill that are alike run as one stretch, which is told of in parts where
    somebody looks in the midst of it, and ends early where something comes. Where chance has a
    part in their times none is like another.

    Where a step gives several tokens at once, those after the first are given out as steps of no
    time that follow it, which nobody hears of as steps. A request whose text was computed in it
    gets as many: a step too early, and nothing hangs on that.

    Args:
        law: Step time.
        chance: How far steps lie from it.
        scheduler: Decides.
        streams: Told how long steps took.
        sink: Told of steps.
        rate: Told of steps with prefill; None where nobody asks.
        now_s: When it begins.

    Attributes:
        next_event_s: End of the present step or stretch, as planned now; infinite when idle.
        last_end_s: End of the last step that has run, or when idleness began.
        gauges: What was last told of the scheduler.
        preemptions: So far.
        steps_at_budget: Steps so far that held as many tokens as they might.
    """

    def __init__(
        self,
        law: StepTime,
        chance: Chance,
        scheduler: Scheduler,
        streams: Streams,
        sink: Sink,
        rate: PrefillRate | None,
        now_s: float,
    ) -> None:
        self.next_event_s = inf
        self.last_end_s = now_s
        self._factor = 1.0
        self._speculation = NO_SPECULATION
        self._more = 0
        self._is_more = False
        self.gauges = Gauges()
        self.preemptions = 0
        self.steps_at_budget = 0
        self._law = law
        self._chance = chance
        self._scheduler = scheduler
        self._streams = streams
        self._sink = sink
        self._rate = rate
        self._changes: list[Change] = []
        self._plan: StepPlan | None = None
        self._steps = 0
        self._pace = Pace(inf, 0.0)
        self._kv_tokens = 0

    @property
    def is_idle(self) -> bool:
        """Whether no step is under way."""
        return self._plan is None

    def set_factor(self, factor: float, speculation: Speculation) -> None:
        """Steps take so many times as long as the law says from now on; between two steps only.

        Args:
            factor: How many.
            speculation: What each decode gets of a step, and what that costs.
        """
        self._factor, self._speculation = factor, speculation

    def change(self, change: Change, now_s: float) -> None:
        """Something has come: it is taken at the end of the step under way.

        Args:
            change: What to do then.
            now_s: When; all that has ended by then was run.
        """
        self._changes.append(change)
        if self._plan is None:
            self._begin(now_s)
        elif self._steps > 1:
            self._steps = 1
            self.next_event_s = self.last_end_s + self._pace.first_s

    def advance(self, now_s: float) -> None:
        """Runs every step that ends up to now."""
        while self.next_event_s <= now_s:
            self._finish()
        if self._steps > 1:
            ended = self._pace.within(now_s - self.last_end_s, self._steps - 1)
            if ended:
                self._run_on(ended)

    def _begin(self, now_s: float) -> None:
        self.last_end_s = now_s
        self.gauges.take()
        changes, self._changes = self._changes, []
        for change in changes:
            change()
        self._is_more = self._more > 0 and len(self._scheduler.decodes) > 0
        if self._is_more:
            self._decide_more(now_s)
        elif self._scheduler.has_work:
            self._decide(now_s)
        else:
            self._plan, self._steps, self.next_event_s = None, 0, inf

    def _decide(self, now_s: float) -> None:
        scheduler, law, chance = self._scheduler, self._law, self._chance
        self._plan = plan = scheduler.schedule(now_s)
        load = plan.load
        prefill_tokens, rows, self._kv_tokens = (
            load.prefill_tokens,
            load.decode_rows,
            load.kv_tokens,
        )
        if not prefill_tokens and not rows:
            raise RuntimeError("there is work, and none of it can run")
        first_ms = law.step_ms(prefill_tokens, rows, self._kv_tokens, load.chunk_context)
        speculation = self._speculation
        if speculation.tokens > 1 and rows:
            decode_ms = law.step_ms(0, rows, scheduler.decodes.kv_tokens + rows, 0)
            first_ms += (speculation.factor - 1.0) * decode_ms
        growth_ms = law.per_kv_token_ms * rows
        factor = self._factor * chance.factor(prefill_tokens) / 1e3
        self._pace = Pace(first_ms * factor, growth_ms * factor)
        self._more = speculation.tokens - 1 if rows else 0
        self._steps = 1 if chance.is_any or self._more else scheduler.alike(plan)
        self.next_event_s = now_s + self._pace.elapsed_s(self._steps)

    def _decide_more(self, now_s: float) -> None:
        """Decodes get more tokens of the step that has just ended."""
        self._plan = plan = self._scheduler.schedule_decodes(now_s)
        self._pace = Pace(0.0, 0.0)
        self._steps = min(self._more, self._scheduler.alike(plan))
        self._more -= self._steps
        self.next_event_s = now_s

    def _finish(self) -> None:
        plan, steps, end_s = self._plan, self._steps, self.next_event_s
        if plan is None:
            return
        self._tell(plan, steps, end_s)
        if plan.chunks:
            self._learn(plan)
        self._scheduler.complete(plan, steps, end_s)
        self.preemptions += len(plan.preempted)
        self.gauges.read(self._scheduler)
        self._begin(end_s)

    def _run_on(self, steps: int) -> None:
        """So many steps of the stretch have run, others follow."""
        if self._plan is None:
            return
        self._tell(self._plan, steps, inf)
        self._scheduler.run_on(steps)
        self.last_end_s += self._pace.elapsed_s(steps)
        self._kv_tokens += steps * len(self._scheduler.decodes)
        self._pace = self._pace.after(steps)
        self._steps -= steps
        self.gauges.read(self._scheduler)

    def _tell(self, plan: StepPlan, steps: int, end_s: float) -> None:
        interactive_rows, batch_rows = self._scheduler.decodes.count
        pace = self._pace
        if self._is_more:
            self._sink.accepted(
                tokens=steps, interactive_rows=interactive_rows, batch_rows=batch_rows
            )
        elif plan.chunks:
            self._sink.step(
                end_s=end_s,
                seconds=pace.first_s,
                prefill_tokens=plan.load.prefill_tokens,
                interactive_rows=interactive_rows,
                batch_rows=batch_rows,
                kv_tokens=self._kv_tokens,
                chunk_context=plan.load.chunk_context,
                at_budget=plan.at_budget,
            )
        else:
            self._sink.stretch(
                start_s=self.last_end_s,
                steps=steps,
                interactive_rows=interactive_rows,
                batch_rows=batch_rows,
                kv_tokens=self._kv_tokens,
                first_s=pace.first_s,
                growth_s=pace.growth_s,
                at_budget=plan.at_budget,
            )
        self._streams.ran(pace, steps, interactive_rows + batch_rows)
        if plan.at_budget and not self._is_more:
            self.steps_at_budget += steps

    def _learn(self, plan: StepPlan) -> None:
        load, seconds = plan.load, self._pace.first_s
        self._scheduler.target.observe(load, 1e3 * seconds)
        if self._rate is not None:
            budget = self._scheduler.limits.budget(0)
            self._rate.add(load.prefill_tokens, load.decode_rows, seconds, budget)
