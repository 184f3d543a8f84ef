"""What travels between the processes, and how much of it."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from paceline_engine.message import AddRequest, Fork, ToEngine
from paceline_engine.request import CacheScope, Request, Tier
from paceline_engine.sampling import SamplingParams

PARENT = Request(
    request_id=7,
    prompt_token_ids=tuple(range(300, 5300)),
    sampling=SamplingParams(
        seed=2**63,
        max_tokens=9,
        stop_token_ids=tuple(range(1000)),
        logit_bias=tuple((token_id, -1.0) for token_id in range(1000)),
        logprobs=2,
        prompt_logprobs=3,
    ),
    tier=Tier.BATCH,
    cache_scope=CacheScope(tenant="t", scope="s", salt="p"),
    deadline_s=1.5,
)
BYTES_A_FORK = 32


def sent(forks: int) -> bytes:
    each = tuple(Fork(8 + index, seed=2**64 - 1 - index) for index in range(forks))
    return msgspec.msgpack.encode(AddRequest(PARENT, each))


@pytest.mark.behaviour(
    "prompt and settings travel to the engine once, however many choices a call asks for",
    report="own finding: n = 128 of a long prompt sent it 128 times",
)
def test_a_choice_more_costs_an_id_and_a_seed() -> None:
    assert len(sent(127)) - len(sent(0)) <= 127 * BYTES_A_FORK


def test_what_arrives_are_whole_requests_that_share_their_prompt() -> None:
    message = msgspec.msgpack.decode(sent(3), type=ToEngine)
    assert isinstance(message, AddRequest)
    first, *forks = message.requests()
    assert first == PARENT
    assert len(forks) == 3
    for index, fork in enumerate(forks):
        sampling = replace(PARENT.sampling, seed=2**64 - 1 - index, prompt_logprobs=None)
        assert fork == replace(PARENT, request_id=8 + index, parent_id=7, sampling=sampling)
        assert fork.prompt_token_ids is first.prompt_token_ids
