"""Random lives of one engine: how it is made, what comes, and when."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from math import inf

from paceline_operator.autopilot.vocabulary.window import BATCH, INTERACTIVE
from paceline_operator.simulator.engine_config import EngineConfig
from paceline_operator.simulator.law import StepLaw
from paceline_operator.simulator.request import Request


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request comes."""

    at_s: float
    request_id: int
    request: Request


@dataclass(frozen=True, slots=True)
class Abort:
    """A request's client leaves."""

    at_s: float
    request_id: int


@dataclass(frozen=True, slots=True)
class Change:
    """Live settings; None leaves one as it is."""

    at_s: float
    budget: int | None = None
    running: int | None = None
    target_ms: float | None = None


Event = Arrival | Abort | Change


@dataclass(frozen=True, slots=True)
class Life:
    """One engine's."""

    config: EngineConfig
    events: tuple[Event, ...]


def life(seed: int, *, prefix_tokens: int) -> Life:
    """A life, of one of a few kinds.

    Args:
        seed: Chance.
        prefix_tokens: Tokens of a prompt that one id of its prefix stands for.
    """
    chance = random.Random(seed)
    is_tight = chance.random() < 0.35
    config = _tight(chance, _config(chance)) if is_tight else _config(chance)
    arrivals = _arrivals(chance, config, prefix_tokens, is_tight=is_tight)
    span_s = arrivals[-1].at_s + 0.5
    events: list[Event] = [*arrivals]
    events += [
        Abort(arrival.at_s + chance.expovariate(6.0), arrival.request_id)
        for arrival in arrivals
        if chance.random() < 0.1
    ]
    changes = chance.choice((0, 0, 2, 6))
    events += [_change(chance, config, chance.uniform(0.0, span_s)) for _ in range(changes)]
    return Life(config, tuple(sorted(events, key=lambda event: event.at_s)))


def _config(chance: random.Random) -> EngineConfig:
    block_size = chance.choice((4, 8, 16, 16, 64))
    ceiling = chance.choice((32, 64, 64, 128))
    cap = chance.choice((2, 4, 8, 16))
    blocks = chance.randint(200 // block_size, 900 // block_size)
    return EngineConfig(
        law=StepLaw(
            base_ms=chance.uniform(2.0, 6.0),
            per_prefill_token_ms=chance.uniform(0.05, 0.4),
            per_decode_row_ms=chance.uniform(0.05, 0.4),
            per_kv_token_ms=chance.choice((0.0, chance.uniform(0.0, 0.01))),
            per_chunk_context_ms=chance.choice((0.0, chance.uniform(0.0, 0.0005))),
            floor_ms=chance.choice((0.0, 7.3)),
            floor_per_token_ms=chance.choice((0.0, 0.031)),
        ),
        num_kv_blocks=max(3, blocks),
        max_model_len=chance.choice((200, 400, 1000)),
        max_num_batched_tokens=ceiling,
        max_num_seqs=cap,
        initial_batched_tokens=chance.choice((ceiling, chance.randint(16, ceiling))),
        initial_running_seqs=chance.choice((cap, chance.randint(1, cap))),
        block_size=block_size,
        prefix_caching=chance.random() < 0.9,
        batch_weight=chance.choice((0.25, 0.25, 0.5, 2.0)),
        interactive_max_wait_s=chance.choice((0.03, 0.2, 10.0)),
        batch_max_wait_s=chance.choice((0.05, 0.3, 900.0)),
        step_time_target_ms=chance.choice((0.0, 0.0, 0.0, chance.uniform(6.0, 20.0))),
        max_queued_requests=inf,
        max_queued_tokens=inf,
        max_kv_tokens=inf,
    )


def _tight(chance: random.Random, config: EngineConfig) -> EngineConfig:
    """Few blocks and many seats: requests preempt each other again and again."""
    size = chance.choice((2, 4, 8))
    blocks = chance.randint(40 // size, 110 // size)
    return replace(
        config,
        block_size=size,
        num_kv_blocks=blocks,
        max_num_seqs=16,
        initial_running_seqs=chance.choice((6, 16)),
    )


def _arrivals(
    chance: random.Random, config: EngineConfig, prefix_tokens: int, *, is_tight: bool
) -> list[Arrival]:
    count = chance.randint(6, 22 if is_tight else 14)
    per_second = 300.0 if is_tight else chance.choice((8.0, 25.0, 80.0, 300.0))
    batch_share = chance.choice((0.0, 0.0, 0.3, 0.5, 1.0))
    shares = chance.choice((0.0, 0.5, 0.9))
    longest = 45 if is_tight else chance.choice((12, 30, 30, 30, 200))
    mean_prompt = 8.0 if is_tight else 40.0
    most = config.max_request_tokens - 1
    at_s = 0.0
    found: list[Arrival] = []
    for number in range(count):
        at_s += chance.expovariate(per_second) if chance.random() < 0.9 else 0.0
        prompt = min(most, 1 + int(chance.expovariate(1 / mean_prompt)))
        ids = _prefix(chance, prompt, prefix_tokens) if chance.random() < shares else ()
        tier = BATCH if chance.random() < batch_share else INTERACTIVE
        request = Request(at_s, prompt, chance.randint(1, longest), ids, tier)
        found.append(Arrival(at_s, number, request))
    return found


def _prefix(chance: random.Random, prompt: int, prefix_tokens: int) -> tuple[int, ...]:
    """Ids for all of a prompt, or for its beginning; few enough that prompts begin alike."""
    family = chance.randint(0, 2)
    ids = [10 * family + place for place in range(-(-prompt // prefix_tokens))]
    if chance.random() < 0.3:
        ids[-1] += 1000 * chance.randint(1, 2)
    if chance.random() < 0.3:
        ids.pop()
    return tuple(ids)


def _change(chance: random.Random, config: EngineConfig, at_s: float) -> Change:
    kind = chance.random()
    if kind < 0.4:
        return Change(at_s, budget=chance.randint(8, config.max_num_batched_tokens + 20))
    if kind < 0.8:
        return Change(at_s, running=chance.randint(1, config.max_num_seqs + 1))
    return Change(at_s, target_ms=chance.choice((0.0, chance.uniform(5.0, 25.0))))
