"""Messages between the server process and the engine process.

msgpack over one ZeroMQ pair of sockets; ids and numbers only, no text. The engine sends
one `StepReport` per step and, when idle, one every second: the server takes its absence
as death.
"""

from __future__ import annotations

import msgspec

from paceline_engine.request import FinishReason, Request


class AddRequest(msgspec.Struct, frozen=True, tag="add"):
    """Queue a request. `Request` was checked by the server."""

    request: Request


class AbortRequests(msgspec.Struct, frozen=True, tag="abort"):
    """Drop requests, waiting or running; unknown ids are ignored."""

    request_ids: tuple[int, ...]


class ApplyTunables(msgspec.Struct, frozen=True, tag="tune"):
    """Set the live knobs between two steps; None leaves one as it is."""

    call_id: int
    max_num_batched_tokens: int | None = None
    max_num_running_seqs: int | None = None


class Shutdown(msgspec.Struct, frozen=True, tag="shutdown"):
    """End the engine process."""


class TokenOutput(msgspec.Struct, frozen=True, array_like=True):
    """New tokens of one request in one step, and its end if it ended.

    `queue_s` is set once, with the first token: time between receipt by the engine
    process and the first step that ran a part of it. End-of-generation and stop tokens end
    the output without being part of `token_ids`. `error` is one line for people, set with
    `FinishReason.ERROR`.
    """

    request_id: int
    token_ids: tuple[int, ...]
    finish_reason: FinishReason | None = None
    queue_s: float | None = None
    error: str | None = None


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

    `waiting_tokens` counts what waiting requests must compute before their next token. The
    last two limits are the settings in force; while a lowered running cap drains down, a
    step's budget can exceed its setting so that every running sequence keeps decoding.
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


class EngineFailed(msgspec.Struct, frozen=True, tag="failed"):
    """The engine process cannot go on; `reason` is one line for people."""

    reason: str


ToEngine = AddRequest | AbortRequests | ApplyTunables | Shutdown
FromEngine = Ready | StepReport | TunablesApplied | EngineFailed
