"""A burst against a really started engine; its counts must be those asked for."""

from __future__ import annotations

import pytest

from bench.contender import PACELINE, ContenderError
from bench.streams import Load, run_burst
from tests.support.engine_server import engine_server


async def test_counts_are_checked_on_both_sides() -> None:
    with engine_server("--served-name=m") as server:
        prompts = ["abcd", "efgh"]
        load = Load(input_tokens=4, output_tokens=5)
        burst = await run_burst(server.api, PACELINE, "m", prompts, load)
        assert burst.output_tokens == 10
        assert len(burst.ttft_ms) == 2
        wrong = Load(input_tokens=3, output_tokens=5)
        with pytest.raises(ContenderError, match="counted 4 tokens in and 5 out instead of 3"):
            await run_burst(server.api, PACELINE, "m", prompts, wrong)
