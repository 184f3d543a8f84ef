"""Groups of clients against a really started engine."""

from __future__ import annotations

import pytest

from bench.clients import Group, run_groups
from bench.contender import ContenderError
from tests.support.engine_server import engine_server

PAIR = Group(name="pair", clients=2, requests=3, input_tokens=20, output_tokens=5)


async def test_every_request_is_counted() -> None:
    one = Group(name="one", clients=1, requests=1, input_tokens=8, output_tokens=2, start_s=0.1)
    with engine_server("--served-name=m") as server:
        pair, single = await run_groups(server.api, "m", (PAIR, one), seed=1)
        received = server.value("prompt_tokens_total")
    assert (len(pair.ttft_ms), pair.output_tokens, pair.refused) == (6, 30, 0)
    assert (len(single.ttft_ms), single.output_tokens) == (1, 2)
    assert received == 6 * 20 + 8
    assert 0 < single.wall_s < pair.wall_s + 60
    assert len(pair.gap_ms) <= 6 * 4
    assert min(pair.gap_ms) >= 0
    assert len(pair.emitted_s) == len(pair.ttft_ms) + len(pair.gap_ms)
    assert list(pair.emitted_s) == sorted(pair.emitted_s)
    assert min(single.emitted_s) >= 0.1


async def test_refusals_are_counted_and_others_end_the_run() -> None:
    crowd = Group(name="crowd", clients=12, requests=1, input_tokens=20, output_tokens=2)
    law = "base_ms=200,per_token_ms=0"
    with engine_server(
        "--served-name=m", "--max-queued-requests=1", "--max-num-seqs=1", law=law
    ) as server:
        (seen,) = await run_groups(server.api, "m", (crowd,), seed=1)
        assert seen.refused > 0
        assert seen.refused + len(seen.ttft_ms) == 12
        with pytest.raises(ContenderError, match="HTTP 404"):
            await run_groups(server.api, "other", (PAIR,), seed=1)


def test_a_smaller_load_still_has_a_request() -> None:
    assert PAIR.scaled(0).requests == 1
    assert PAIR.scaled(2).requests == 6
