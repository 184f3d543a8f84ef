"""The real scheduler on a clock of its own, between the steps of a loop without processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from paceline_engine.config import EngineConfig as RealConfig
from paceline_engine.request import Request, Tier
from paceline_engine.sampling import SamplingParams
from paceline_engine.scheduler.output import SchedulerOutput
from paceline_engine.scheduler.scheduler import Scheduler
from paceline_operator.autopilot.vocabulary.window import BATCH
from paceline_operator.simulator.engine_config import EngineConfig
from paceline_operator.simulator.request import Request as LoadRequest
from tests.contract.happenings import Abort, Arrival, Change, Event
from tests.support.engine_config import engine_config


@dataclass(frozen=True, slots=True)
class Step:
    """What is compared of a step; the last three are known where a stretch of steps begins."""

    end_s: float
    seconds: float
    prefill_tokens: int
    rows: tuple[int, int]
    kv_tokens: int
    chunk_context: int
    at_budget: bool
    preempted: tuple[int, ...] = ()
    cache: tuple[int, int] | None = None
    blocks: tuple[int, int, int] | None = None


@dataclass(slots=True)
class Story:
    """What became of a request."""

    started_s: float | None = None
    tokens_s: list[float] = field(default_factory=list)
    cached_tokens: int = 0
    preemptions: int = 0
    left_s: float = inf


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A step's results: every chunk that samples gets a token of its own."""

    sampled: tuple[tuple[int, int], ...]
    failed: tuple[tuple[int, str], ...] = ()
    faults: Mapping[int, object] = field(default_factory=dict)
    logprobs: Mapping[int, object] = field(default_factory=dict)
    prompt_logprobs: Mapping[int, object] = field(default_factory=dict)


class RealEngine:
    """Runs events to their end.

    Args:
        config: As of the simulated engine.
        prefix_tokens: Tokens of a prompt that one id of its prefix stands for.

    Attributes:
        steps: All that ran.
        stories: By request id, of those that came.
    """

    def __init__(self, config: EngineConfig, prefix_tokens: int) -> None:
        self.scheduler = Scheduler(_translated(config))
        self.steps: list[Step] = []
        self.stories: dict[int, Story] = {}
        self._law = config.law
        self._prefix_tokens = prefix_tokens

    def run(self, events: tuple[Event, ...]) -> None:
        """Lives through the events and until all work is done."""
        now_s, coming = 0.0, list(reversed(events))
        while coming or self.scheduler.has_work:
            if not self.scheduler.has_work:
                now_s = max(now_s, coming[-1].at_s)
                self._take(coming.pop(), now_s)
                continue
            now_s = self._step(now_s, coming)

    def _step(self, now_s: float, coming: list[Event]) -> float:
        step = self.scheduler.schedule(now_s)
        seconds = self._seconds(step)
        end_s = now_s + seconds
        self._note(step, now_s, end_s, seconds)
        sampled = tuple(
            (chunk.request_id, chunk.request_id << 32 | 1 << 31 | chunk.end)
            for chunk in step.chunks
            if chunk.samples
        )
        for output in self.scheduler.update(_Drawn(sampled), end_s):
            story = self.stories[output.request_id]
            story.tokens_s += [end_s] * len(output.token_ids)
            if output.cached_tokens is not None:
                story.cached_tokens = output.cached_tokens
        self.scheduler.observe(step, seconds)
        while coming and coming[-1].at_s < end_s:
            self._take(coming.pop(), end_s)
        return end_s

    def _seconds(self, step: SchedulerOutput) -> float:
        return (
            self._law.step_ms(
                step.prefill_tokens, step.decode_rows, step.resident_kv_tokens, step.chunk_context
            )
            / 1e3
        )

    def _note(self, step: SchedulerOutput, now_s: float, end_s: float, seconds: float) -> None:
        pool = self.scheduler.pool
        decodes = step.chunks[: step.decode_rows]
        batch = sum(self._tier(chunk.request_id) is Tier.BATCH for chunk in decodes)
        for request_id in step.started:
            self.stories[request_id].started_s = now_s
        for request_id in step.preempted:
            self.stories[request_id].preemptions += 1
        self.steps.append(
            Step(
                end_s,
                seconds,
                step.prefill_tokens,
                (step.decode_rows - batch, batch),
                step.resident_kv_tokens,
                step.chunk_context,
                step.num_tokens >= step.budget,
                step.preempted,
                (pool.queries_tokens, pool.hits_tokens),
                (pool.num_free, pool.num_cached, pool.num_held),
            )
        )

    def _tier(self, request_id: int) -> Tier:
        sequence = self.scheduler.roster.find(request_id)
        assert sequence is not None
        return sequence.request.tier

    def _take(self, event: Event, now_s: float) -> None:
        if isinstance(event, Arrival):
            self.stories[event.request_id] = Story()
            self.scheduler.add(self._request(event), now_s)
        elif isinstance(event, Abort):
            if event.request_id in self.stories:
                self.stories[event.request_id].left_s = event.at_s
            self.scheduler.abort([event.request_id], now_s)
        elif isinstance(event, Change):
            self.scheduler.limits.apply(
                max_num_batched_tokens=event.budget,
                max_num_running_seqs=event.running,
                step_time_target_ms=event.target_ms,
            )

    def _request(self, arrival: Arrival) -> Request:
        load = arrival.request
        return Request(
            request_id=arrival.request_id,
            prompt_token_ids=_tokens(load, arrival.request_id, self._prefix_tokens),
            sampling=SamplingParams(seed=1, max_tokens=load.output_tokens, ignore_eos=True),
            tier=Tier.BATCH if load.tier == BATCH else Tier.INTERACTIVE,
            received_s=arrival.at_s,
        )


def _tokens(load: LoadRequest, request_id: int, prefix_tokens: int) -> tuple[int, ...]:
    """Alike where the prefix ids so say; all others are of this request alone."""
    found = []
    for place in range(load.prompt_tokens):
        number = place // prefix_tokens
        if number < len(load.prefix_blocks):
            found.append(hash((load.prefix_blocks[number], place % prefix_tokens)) >> 1)
        else:
            found.append(request_id << 32 | place)
    return tuple(found)


def _translated(config: EngineConfig) -> RealConfig:
    return engine_config(
        max_model_len=config.max_model_len,
        max_num_batched_tokens=config.max_num_batched_tokens,
        max_num_seqs=config.max_num_seqs,
        initial_batched_tokens=config.initial_batched_tokens,
        initial_running_seqs=config.initial_running_seqs,
        initial_step_time_target_ms=config.step_time_target_ms,
        num_kv_blocks=config.num_kv_blocks,
        block_size=config.block_size,
        eos_token_ids=(),
        prefix_caching=config.prefix_caching,
        batch_weight=config.batch_weight,
        interactive_max_wait_s=config.interactive_max_wait_s,
        batch_max_wait_s=config.batch_max_wait_s,
    )
