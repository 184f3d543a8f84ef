"""Continuous batching: which tokens of which requests run in the next step.

This is the engine's own rule, written a second time for counts instead of tokens. A step holds
all running decodes first, then prefill, divided between tiers by weight where both want it, then
whoever may come in. Steps in which nobody comes, goes or waits for a block are not decided one
by one: `alike` says how many there are.
"""

from __future__ import annotations

from paceline_operator.simulator.engine.admission import Admission
from paceline_operator.simulator.engine.block_pool import BlockPool
from paceline_operator.simulator.engine.decodes import Decodes
from paceline_operator.simulator.engine.limits import LiveLimits
from paceline_operator.simulator.engine.plan import StepPlan
from paceline_operator.simulator.engine.prefill import Prefill
from paceline_operator.simulator.engine.running import RunningSet
from paceline_operator.simulator.engine.sequence import Sequence
from paceline_operator.simulator.engine.share import Shares
from paceline_operator.simulator.engine.step_time import StepTimeTarget
from paceline_operator.simulator.engine.streams import Streams
from paceline_operator.simulator.engine.waiting import Waiting
from paceline_operator.simulator.engine_config import EngineConfig


class Scheduler:
    """All requests of one engine and the blocks they hold.

    Args:
        config: Sizes, ceilings and start values.
        streams: Told of tokens and ends.

    Attributes:
        limits: Budget and running cap.
        waiting: Who waits.
        running: Who holds blocks.
        decodes: Who of them gets a token in every step.
        pool: KV accounting.
        target: The step time to keep.
    """

    def __init__(self, config: EngineConfig, streams: Streams) -> None:
        self.limits = LiveLimits(config)
        self.running = RunningSet()
        self.decodes = Decodes(config.block_size)
        self.pool = BlockPool(
            config.num_kv_blocks, config.block_size, prefix_caching=config.prefix_caching
        )
        self.target = StepTimeTarget(config.step_time_target_ms, config.budget_step)
        self._rule = config.step_budget
        self._shares = Shares(config.batch_weight, config.block_size)
        self.waiting = Waiting(self._shares, config.interactive_max_wait_s)
        self._admission = Admission(
            self.waiting, self.running, self.decodes, self.pool, self.limits
        )
        self._prefill = Prefill(self.waiting, self._admission, self._shares)
        self._streams = streams
        self._remnants: dict[Sequence, None] = {}

    @property
    def has_work(self) -> bool:
        """Whether a step would run something."""
        return bool(len(self.running) or len(self.waiting))

    def apply(
        self, budget: int | None, running_cap: int | None, step_time_target_ms: float | None
    ) -> None:
        """Sets what is not None, between two steps; a target of 0 takes it back."""
        self.limits.apply(budget, running_cap)
        if step_time_target_ms is not None:
            self.target.target_ms = max(0.0, step_time_target_ms)

    def add(self, sequence: Sequence) -> None:
        """Queues a new request."""
        if not self._shares.has_seen(sequence.tier):
            self._shares.see(sequence.tier, list(self.running), self.decodes.steps)
        self._shares.settle(self.decodes.steps)
        self.waiting.add(sequence)

    def abort(self, sequence: Sequence) -> None:
        """Drops a request wherever it is; one that is over is ignored."""
        if sequence.is_waiting:
            self.waiting.remove(sequence)
        elif sequence.is_running:
            self._stop(sequence)
            self._leave(sequence)
        else:
            return
        self._shares.end(sequence)

    def schedule(self, now_s: float) -> StepPlan:
        """Decides the next step."""
        plan = StepPlan(
            now_s,
            self._budget(),
            self.target if self.target.target_ms else None,
        )
        self._shares.settle(self.decodes.steps)
        if (victim := self._admission.victim(now_s)) is not None:
            self._preempt(victim, plan)
        self._decode(plan)
        if self.running.prefilling or len(self.waiting):
            self._prefill.add(plan, self.running.prefilling)
            self._remnants.update((each, None) for each in plan.chunks if each.is_remnant)
        return plan

    def schedule_decodes(self, now_s: float) -> StepPlan:
        """Decides a step of decodes alone, to which nobody is let in."""
        plan = StepPlan(now_s, self.limits.budget(len(self.running)), None)
        self._shares.settle(self.decodes.steps)
        self._decode(plan)
        return plan

    def _decode(self, plan: StepPlan) -> None:
        decodes = self.decodes
        self._grow(plan)
        self._shares.settle(decodes.steps + 1)
        plan.add_decodes(len(decodes), decodes.kv_tokens + len(decodes))

    def _budget(self) -> int:
        """Tokens of the next step; a rule never leaves a decode without its own."""
        running = len(self.running)
        budget = self.limits.budget(running)
        if self._rule is None:
            return budget
        chosen = self._rule.tokens(
            active_prefills=len(self.running.prefilling) + len(self.waiting),
            running_decodes=len(self.decodes),
            budget=budget,
        )
        return min(budget, max(chosen, self.limits.floor(running)))

    def alike(self, plan: StepPlan) -> int:
        """How many steps would be like the one just decided, that one included."""
        if plan.chunks or plan.preempted or self._remnants or not self._admission.is_settled:
            return 1
        steps = self.decodes.until_end
        blocks = self.pool.available
        if self.decodes.blocks_needed(1, steps - 1) > blocks:
            steps = 1 + self.decodes.steps_within(1, blocks)
        return steps

    def run_on(self, steps: int) -> None:
        """So many of such steps have run, and others follow."""
        self.pool.take(self.decodes.blocks_needed(1, steps))
        self.decodes.advance(steps)

    def complete(self, plan: StepPlan, steps: int, end_s: float) -> None:
        """The last so many steps of a plan have run: gives out tokens, ends requests."""
        if steps > 1:
            self.pool.take(self.decodes.blocks_needed(1, steps - 1))
        self.decodes.advance(steps)
        for sequence in self.decodes.ended():
            self._shares.note_if_live(sequence)
            self._end(sequence, end_s)
        if self._remnants:
            self._fill_remnants()
        for sequence, length in plan.chunks.items():
            sequence.computed += length
            if sequence.keys:
                self.pool.fill(sequence)
            if sequence.computed == sequence.known:
                self._draw(sequence, end_s)

    def _grow(self, plan: StepPlan) -> None:
        """Gets the blocks that the step's decodes need."""
        needed = self.decodes.blocks_needed_next
        if needed <= self.pool.available:
            self.pool.take(needed)
            return
        plan.is_short = True
        position = self.decodes.steps + 1
        for each in tuple(self.running):
            if each.is_decoding and (
                not self.decodes.needs_block(each) or self._make_room(each, plan)
            ):
                self._shares.note(each, position + each.offset)

    def _make_room(self, sequence: Sequence, plan: StepPlan) -> bool:
        """Gets a row its block; False if it has had to yield itself."""
        while not self.pool.available:
            victim = self.running.victim()
            if victim is None:
                raise RuntimeError(f"request {sequence.served.id} lacks a block it may claim")
            self._preempt(victim, plan)
            if victim is sequence:
                return False
        self.pool.take(1)
        return True

    def _preempt(self, victim: Sequence, plan: StepPlan) -> None:
        if victim.is_decoding:
            self._stop(victim)
            self._streams.pause(victim, plan.now_s, self.decodes.steps)
        self._leave(victim)
        victim.preempt()
        self.waiting.add(victim)
        plan.preempted.append(victim)

    def _draw(self, sequence: Sequence, end_s: float) -> None:
        """A request whose text is computed gets a token, and decodes from now on."""
        sequence.known += 1
        self._streams.draw(sequence, end_s, self.decodes.steps)
        if sequence.known >= sequence.max_total:
            self._end(sequence, end_s)
            return
        del self.running.prefilling[sequence]
        self.decodes.add(sequence)
        self._shares.watch(sequence)

    def _end(self, sequence: Sequence, end_s: float) -> None:
        self._streams.end(sequence, end_s, self.decodes.steps)
        self._leave(sequence)

    def _stop(self, sequence: Sequence) -> None:
        """Brings a running request's numbers up to date: it runs no further."""
        if sequence.is_decoding:
            self.decodes.remove(sequence)
            self._shares.note(sequence, sequence.computed)

    def _leave(self, sequence: Sequence) -> None:
        """A request that has been stopped lets go of its seat and its blocks."""
        self.running.remove(sequence)
        self.pool.release(sequence)
        self._remnants.pop(sequence, None)

    def _fill_remnants(self) -> None:
        for sequence in self._remnants:
            if sequence.is_decoding:
                self.decodes.locate(sequence)
                self.pool.fill(sequence)
