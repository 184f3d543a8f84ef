"""What is asked of Prometheus, against a real one."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import aiohttp
import pytest

from paceline_operator.metrics import load_history
from paceline_operator.metrics.errors import PrometheusError
from paceline_operator.metrics.load_history import History, Question, read_history
from paceline_operator.metrics.query_api import QueryApi
from paceline_operator.simulator.loads.lengths import LogNormal, LogNormalLengths
from paceline_operator.simulator.loads.rates import Piecewise, Segment
from paceline_operator.simulator.loads.single_turns import SingleTurns, Stage
from paceline_operator.simulator.loads.totals import totals
from paceline_operator.simulator.request import Request
from tests.operator.metrics.recorded_fleet import (
    BLOCK_SIZE,
    BLOCKS,
    HIT_SHARE,
    SCRAPE_S,
    recorded,
    unanswered,
)
from tests.support.prometheus_past import prometheus_past

HOUR_S = 3600.0
SELECTOR = 'namespace="default",pod=~"chat-[0-9a-z]+-[0-9a-z]+"'
LOAD = SingleTurns(
    rates=Piecewise(parts=(Segment(1800.0, 2.0, 2.0), Segment(1800.0, 6.0, 6.0))),
    stages=(
        Stage(
            0.0,
            LogNormalLengths(
                prompt=LogNormal(mean=900.0, sigma=0.8, most=8000),
                output=LogNormal(mean=150.0, sigma=0.6, most=2000),
            ),
        ),
    ),
)


@dataclass(frozen=True)
class Past:
    url: str
    begin_s: float
    requests: list[Request]


@pytest.fixture(scope="module")
def past() -> Iterator[Past]:
    begin_s = float(int(time.time())) - HOUR_S - 120.0
    requests = list(LOAD.requests(random.Random(3)))
    dead = unanswered(40, begin_s, HOUR_S, "batch")
    alone = unanswered(40, begin_s, HOUR_S, "batch", namespace="alone")
    with prometheus_past([*recorded(requests, begin_s, HOUR_S), dead, alone]) as url:
        yield Past(url, begin_s, requests)


async def read(past: Past, selector: str = SELECTOR, begin_s: float | None = None) -> History:
    start_s = past.begin_s if begin_s is None else begin_s
    async with aiohttp.ClientSession() as session:
        asked = Question(selector=selector, start_s=start_s, end_s=start_s + HOUR_S)
        return await read_history(QueryApi(session, past.url), asked)


async def test_the_past_is_played_again_as_it_was(past: Past) -> None:
    history = await read(past)
    assert history.scrape_s == pytest.approx(SCRAPE_S, rel=0.06)
    assert history.step_s == pytest.approx(2 * SCRAPE_S, rel=0.06)
    again = list(history.load.requests(random.Random(5)))
    before, after = totals(past.requests), totals(again)
    assert after.requests == pytest.approx(before.requests, rel=0.04)
    assert after.prompt_mean == pytest.approx(before.prompt_mean, rel=0.04)
    assert after.output_mean == pytest.approx(before.output_mean, rel=0.05)


async def test_a_step_that_is_no_whole_number_of_milliseconds_loses_nothing(
    past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server rounds it, and answers ever farther from the moments that were meant."""
    monkeypatch.setattr(load_history, "SHORTEST_STEP_S", 31.4142857)
    history = await read(past, begin_s=past.begin_s + 0.0004567)
    again = list(history.load.requests(random.Random(5)))
    assert history.step_s == 31.415
    assert totals(again).requests == pytest.approx(len(past.requests), rel=0.04)


async def test_rates_change_when_they_changed(past: Past) -> None:
    again = list((await read(past)).load.requests(random.Random(5)))
    for start_s in range(0, 3600, 600):
        both = [
            sum(start_s <= each.arrival_s < start_s + 600 for each in load)
            for load in (past.requests, again)
        ]
        assert both[1] == pytest.approx(both[0], rel=0.12)


async def test_lengths_are_spread_as_they_were(past: Past) -> None:
    again = list((await read(past)).load.requests(random.Random(5)))

    def quantile(load: list[Request], share: float) -> int:
        return sorted(each.prompt_tokens for each in load)[int(share * len(load))]

    for share in (0.1, 0.5, 0.9, 0.99):
        assert quantile(again, share) == pytest.approx(quantile(past.requests, share), rel=0.2)


async def test_prefix_hits_and_the_cache_are_found(past: Past) -> None:
    history = await read(past)
    assert history.hit_share == pytest.approx(HIT_SHARE, rel=0.01)
    assert history.kv_tokens == BLOCK_SIZE * BLOCKS
    again = list(history.load.requests(random.Random(5)))
    shared = sum(min(512 * len(each.prefix_blocks), each.prompt_tokens) for each in again)
    assert shared / sum(each.prompt_tokens for each in again) == pytest.approx(HIT_SHARE, rel=0.08)


async def test_a_tier_of_which_nothing_ended_is_left_out(past: Past) -> None:
    history = await read(past)
    assert set(history.load.tiers) == {"interactive"}
    assert list(history.left_out) == ["batch"]
    assert history.left_out["batch"] == pytest.approx(40, rel=0.06)


async def test_where_no_tier_is_left_that_is_said(past: Past) -> None:
    with pytest.raises(PrometheusError, match=r"of the tier 'batch' no request ended .* --last"):
        await read(past, 'namespace="alone"')


async def test_series_of_others_are_not_taken(past: Past) -> None:
    with pytest.raises(PrometheusError, match=r"no series .*other.* is known .* --selector"):
        await read(past, 'namespace="other"')


async def test_a_time_without_load_is_said(past: Past) -> None:
    with pytest.raises(PrometheusError, match="is known at that time"):
        await read(past, begin_s=past.begin_s - 10 * HOUR_S)


async def test_a_question_that_is_none_is_refused_in_the_servers_words(past: Past) -> None:
    with pytest.raises(PrometheusError, match=r"answers 400: bad_data: .*parse error"):
        await read(past, "namespace=oops")
