"""Messages between the server process and the engine process.

msgpack over one ZeroMQ pair of sockets; ids and numbers only, no text. The engine sends
one `StepReport` per step and, when idle, one every second: the server takes its absence
as death.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from paceline_engine.request import Fault, FinishReason, Request


class Fork(msgspec.Struct, frozen=True, array_like=True):
    """Another choice of a request's prompt; it differs in its id and seed alone."""

    request_id: int
    seed: int


class AddRequest(msgspec.Struct, frozen=True, tag="add"):
    """Queue a request and those that fork it. `Request` was checked by the server.

    Prompt and sampling travel once, however many choices there are, and are one object for
    all of them at the other end.
    """

    request: Request
    forks: tuple[Fork, ...] = ()

    def requests(self) -> Iterator[Request]:
        """The request, then its forks; those score no prompt."""
        yield self.request
        if not self.forks:
            return
        sampling = replace(self.request.sampling, prompt_logprobs=None)
        for fork in self.forks:
            yield replace(
                self.request,
                request_id=fork.request_id,
                sampling=replace(sampling, seed=fork.seed),
                parent_id=self.request.request_id,
            )


class AbortRequests(msgspec.Struct, frozen=True, tag="abort"):
    """Drop requests, waiting or running; unknown ids are ignored."""

    request_ids: tuple[int, ...]


class ApplyTunables(msgspec.Struct, frozen=True, tag="tune"):
    """Set the live knobs between two steps; None leaves one as it is."""

    call_id: int
    max_num_batched_tokens: int | None = None
    max_num_running_seqs: int | None = None
    step_time_target_ms: float | None = None  # 0 takes a former target back


class ClearCache(msgspec.Struct, frozen=True, tag="clear"):
    """Drop cached KV that matches every part given; None matches all."""

    call_id: int
    tenant: str | None = None
    scope: str | None = None
    salt: str | None = None
    older_than_s: float | None = None


class Shutdown(msgspec.Struct, frozen=True, tag="shutdown"):
    """End the engine process."""


class TokenLogprobs(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Log-probability of the token that stands at a position, and the best ones there.

    `rank` counts from 1. `top` holds (token id, log-probability), best first. All are finite:
    minus infinity is clamped to -9999, as OpenAI's API does.
    """

    token_id: int
    logprob: float
    rank: int
    top: tuple[tuple[int, float], ...] = ()


class TokenOutput(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """New tokens of one request in one step, and its end if it ended.

    `queue_s` is set once, with the first token: time between the request's being handed to the
    engine and the first step that ran a part of it. End-of-generation and stop tokens end
    the output without being part of `token_ids`. `error` is one line for people, set with
    `FinishReason.ERROR`. `logprobs` has an entry for each of `token_ids` where they were asked
    for. `prompt_logprobs` covers prompt tokens 2 to the last, whole, with the first token;
    `cached_tokens`, set with it too, is how much of the prompt came from the prefix cache.
    `stop_token_id` is the token that ended the output, where one did. `fault` is set beside
    `error` where the request's own settings are why.
    """

    request_id: int
    token_ids: tuple[int, ...]
    finish_reason: FinishReason | None = None
    queue_s: float | None = None
    error: str | None = None
    logprobs: tuple[TokenLogprobs, ...] = ()
    prompt_logprobs: tuple[TokenLogprobs, ...] = ()
    cached_tokens: int | None = None
    stop_token_id: int | None = None
    fault: Fault | None = None


class StepStats(msgspec.Struct, frozen=True, array_like=True):
    """Measurements of one executed step.

    `duration_s` runs to the end of the update from the end of the step before, or from the
    start of scheduling after a wait for work: the gap between emissions that clients see, and
    summed over steps the engine's busy time.
    """

    step_class: str
    duration_s: float
    prefill_tokens: int
    decode_rows: int
    resident_kv_tokens: int
    chunk_context: int
    at_budget: bool
    preemptions: int
    sampled_tokens: int


class LoopState(msgspec.Struct, frozen=True, array_like=True):
    """Gauges after a step (or while idle).

    `waiting_tokens` counts what waiting requests must compute before their next token; the
    `batch_` fields are the batch tier's part of the first three. The two limits are the
    settings in force; while a lowered running cap drains down, a step's budget can exceed its
    setting so that every running sequence keeps decoding. `requests_taken` counts all requests
    that were ever read, also those refused: what was sent beyond them still lies unread.
    """

    requests_running: int
    requests_waiting: int
    waiting_tokens: int
    kv_blocks_free: int
    kv_blocks_held: int
    kv_blocks_cached: int
    max_num_batched_tokens: int
    max_num_running_seqs: int
    prefix_queries_tokens: int = 0
    prefix_hits_tokens: int = 0
    batch_running: int = 0
    batch_waiting: int = 0
    batch_waiting_tokens: int = 0
    step_time_target_ms: float = 0.0
    requests_taken: int = 0

    def emptied(self) -> LoopState:
        """What is left once the engine has died: no request and no KV, but all that is counted."""
        return msgspec.structs.replace(
            self,
            requests_running=0,
            requests_waiting=0,
            waiting_tokens=0,
            kv_blocks_free=self.kv_blocks_free + self.kv_blocks_held + self.kv_blocks_cached,
            kv_blocks_held=0,
            kv_blocks_cached=0,
            batch_running=0,
            batch_waiting=0,
            batch_waiting_tokens=0,
        )


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The engine has loaded its model and serves."""

    num_kv_blocks: int
    block_size: int


class StepReport(msgspec.Struct, frozen=True, tag="step"):
    """One step's results, or a heartbeat when `stats` is None."""

    outputs: tuple[TokenOutput, ...]
    state: LoopState
    stats: StepStats | None = None


class TunablesApplied(msgspec.Struct, frozen=True, tag="tuned"):
    """Answer to `ApplyTunables`: the values now in force."""

    call_id: int
    max_num_batched_tokens: int
    max_num_running_seqs: int
    step_time_target_ms: float = 0.0


class CacheCleared(msgspec.Struct, frozen=True, tag="cleared"):
    """Answer to `ClearCache`.

    `blocks` were freed and overwritten, holding `tokens` tokens; `held` more are in use by
    running requests: nobody can find them any more, and they are overwritten when they are free.
    """

    call_id: int
    blocks: int
    tokens: int
    held: int


class EngineFailed(msgspec.Struct, frozen=True, tag="failed"):
    """The engine process cannot go on; `reason` is one line for people."""

    reason: str


ToEngine = AddRequest | AbortRequests | ApplyTunables | ClearCache | Shutdown
FromEngine = Ready | StepReport | TunablesApplied | CacheCleared | EngineFailed
