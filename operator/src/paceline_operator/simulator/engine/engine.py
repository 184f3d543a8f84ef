"""One simulated engine: what its server lets in and reports, around the loop that runs steps."""

from __future__ import annotations

from paceline_operator.autopilot.vocabulary.window import BATCH
from paceline_operator.simulator.engine.chance import Chance
from paceline_operator.simulator.engine.entrance import Entrance
from paceline_operator.simulator.engine.loop import Loop
from paceline_operator.simulator.engine.prefix_keys import shared_keys
from paceline_operator.simulator.engine.scheduler import Scheduler
from paceline_operator.simulator.engine.sequence import Sequence
from paceline_operator.simulator.engine.speculation import NO_SPECULATION, Speculation
from paceline_operator.simulator.engine.streams import Streams
from paceline_operator.simulator.engine_config import EngineConfig
from paceline_operator.simulator.request import Request
from paceline_operator.simulator.sink import Served, Sink


class Engine:
    """An engine that takes requests, live settings and aborts, and runs up to any moment.

    Time only goes forward: from call to call it is never less. What comes while a step is under
    way is taken at its end.

    Args:
        config: How it is made.
        sink: Told of all that happens.
        now_s: When it begins to serve.
    """

    def __init__(self, config: EngineConfig, sink: Sink, now_s: float) -> None:
        self._config = config
        self._entrance = Entrance(config)
        self._streams = Streams(sink, self._entrance)
        self._scheduler = Scheduler(config, self._streams)
        generators = config.generators
        chance = Chance(config.step_noise, generators and generators(config.noise_seed))
        self._loop = Loop(
            config.law, chance, self._scheduler, self._streams, sink, self._entrance.rate, now_s
        )
        self._arrivals = 0

    def submit(self, request: Request, request_id: int, now_s: float) -> str | None:
        """A request comes.

        Returns:
            Why it is turned away; None where it is accepted.
        """
        self._loop.advance(now_s)
        sequence = self._sequence(Served(request, request_id, now_s))
        reason = self._entrance.refusal(sequence, self.budget, now_s)
        if reason is not None:
            return reason
        self._entrance.enter(sequence, now_s)
        self._streams.admit(sequence)
        self._loop.gauges.send(sequence)
        self._loop.change(lambda: self._scheduler.add(sequence), now_s)
        return None

    def abort(self, request_id: int, now_s: float) -> None:
        """A request's client leaves; unknown ids are ignored."""
        loop, streams, scheduler = self._loop, self._streams, self._scheduler
        loop.advance(now_s)
        if (sequence := streams.open.get(request_id)) is not None:
            streams.give_up(sequence, now_s, loop.last_end_s, scheduler.decodes.steps)
            loop.change(lambda: scheduler.abort(sequence), now_s)

    def apply(
        self,
        *,
        max_num_batched_tokens: int | None = None,
        max_num_running_seqs: int | None = None,
        step_time_target_ms: float | None = None,
        now_s: float,
    ) -> None:
        """Sets what is not None, from the next step on; a target of 0 takes it back."""
        self._loop.advance(now_s)
        self._loop.change(
            lambda: self._scheduler.apply(
                max_num_batched_tokens, max_num_running_seqs, step_time_target_ms
            ),
            now_s,
        )

    def targets(self, itl_ms: tuple[int, ...]) -> None:
        """From now on the late gaps of each request are those longer than each of these."""
        self._streams.compare_with(itl_ms, self._scheduler.decodes.steps)

    def slow_down(
        self, factor: float, now_s: float, speculation: Speculation = NO_SPECULATION
    ) -> None:
        """Steps take so many times as long as the law says, from the next one on.

        Args:
            factor: How many.
            now_s: When.
            speculation: What each decode gets of a step, and what that costs.
        """
        self._loop.advance(now_s)
        self._loop.change(lambda: self._loop.set_factor(factor, speculation), now_s)

    def advance(self, now_s: float) -> None:
        """Runs every step that ends up to now."""
        self._loop.advance(now_s)

    @property
    def next_event_s(self) -> float:
        """End of the present step or stretch, as planned now; infinite when idle."""
        return self._loop.next_event_s

    @property
    def is_empty(self) -> bool:
        """Whether it has nothing to do."""
        return self._loop.is_idle

    def _sequence(self, served: Served) -> Sequence:
        config, request = self._config, served.request
        is_batch = request.tier == BATCH
        self._arrivals += 1
        sequence = Sequence(
            served,
            self._arrivals,
            min(request.prompt_tokens + request.output_tokens, config.max_request_tokens),
            config.batch_max_wait_s if is_batch else config.interactive_max_wait_s,
        )
        if config.prefix_caching and request.prefix_blocks:
            sequence.keys = shared_keys(request, config.block_size)
        return sequence

    # What it last reported of itself, as of the end of a step, and what was sent since.

    @property
    def num_running(self) -> int:
        """Requests that hold KV blocks."""
        return self._loop.gauges.running

    @property
    def num_waiting(self) -> int:
        """Requests that wait, of both tiers."""
        return self._loop.gauges.waiting

    @property
    def num_batch_waiting(self) -> int:
        """Those of the batch tier."""
        return self._loop.gauges.batch_waiting

    @property
    def waiting_tokens(self) -> int:
        """What waiting interactive requests must compute before their next token."""
        return self._loop.gauges.waiting_tokens

    @property
    def kv_usage(self) -> float:
        """Share of the KV blocks that are in use."""
        return self._loop.gauges.held_blocks / self._config.num_kv_blocks

    @property
    def kv_capacity_tokens(self) -> int:
        """Tokens the whole KV pool holds."""
        return self._config.kv_capacity_tokens

    # Live settings in force.

    @property
    def budget(self) -> int:
        """Token budget of a step."""
        return self._scheduler.limits.budget(0)

    @property
    def budget_floor(self) -> int:
        """Smallest budget with the running cap in force."""
        limits = self._scheduler.limits
        return limits.floor(limits.running_cap)

    @property
    def budget_ceiling(self) -> int:
        """Largest budget."""
        return self._scheduler.limits.ceiling

    @property
    def budget_step(self) -> int:
        """Granularity of the budget."""
        return self._scheduler.limits.step

    @property
    def running_cap(self) -> int:
        """Running cap."""
        return self._scheduler.limits.running_cap

    @property
    def running_ceiling(self) -> int:
        """Largest running cap."""
        return self._config.max_num_seqs

    @property
    def step_time_target_ms(self) -> float:
        """Step time to keep; 0 is none."""
        return self._scheduler.target.target_ms

    # Counts since it began.

    @property
    def preemptions(self) -> int:
        """Requests put back to be recomputed."""
        return self._loop.preemptions

    @property
    def prefix_queries_tokens(self) -> int:
        """Tokens looked up in the prefix cache when requests were first let in."""
        return self._scheduler.pool.queries_tokens

    @property
    def prefix_hits_tokens(self) -> int:
        """Of those, found."""
        return self._scheduler.pool.hits_tokens

    @property
    def prompt_tokens(self) -> int:
        """Of requests that got their first token."""
        return self._streams.prompt_tokens

    @property
    def generation_tokens(self) -> int:
        """Tokens given out."""
        return self._streams.generation_tokens

    @property
    def steps_at_budget(self) -> int:
        """Steps that held as many tokens as they might."""
        return self._loop.steps_at_budget
