from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from paceline_operator.autopilot.vocabulary.fleet import DataClass
from paceline_operator.autopilot.vocabulary.window import Counter, Latency, StepClass
from paceline_operator.metrics import DirectSource, HttpFetch, Scraper, Target, names
from paceline_operator.metrics.errors import ScrapeError
from tests.operator.metrics.text import EngineText


class Pods:
    """Engines' texts by path, served over real HTTP; None answers 503."""

    def __init__(self) -> None:
        self.texts: dict[str, EngineText | None] = {}
        self.hung = asyncio.Event()

    async def answer(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name == "hung":
            await self.hung.wait()
        text = self.texts.get(name)
        return web.Response(text=text.render()) if text else web.Response(status=503)


@pytest.fixture
async def fleet() -> AsyncIterator[tuple[Pods, Scraper, str]]:
    pods, app = Pods(), web.Application()
    app.router.add_get("/{name}/metrics", pods.answer)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        yield (
            pods,
            Scraper(DirectSource(HttpFetch(session, timeout_s=0.2))),
            str(server.make_url("")).rstrip("/"),
        )
        pods.hung.set()


Fleet = tuple[Pods, Scraper, str]


def engine(tokens: float = 0.0) -> EngineText:
    text = EngineText()
    text.add(names.GENERATION_TOKENS, tokens)
    text.add(names.STEP_MOMENTS, 0, term="n", **{"class": "mixed"})
    return text


def target(base: str, name: str, *, current: bool = True) -> Target:
    return Target(uid=f"uid-{name}", url=f"{base}/{name}/metrics", current=current)


async def test_growth_of_all_pods_is_one_slice(fleet: Fleet) -> None:
    pods, scraper, base = fleet
    a, b = engine(100), engine(7)
    pods.texts = {"a": a, "b": b}
    targets = [target(base, "a"), target(base, "b")]
    first = await scraper.scrape(targets, 10.0)
    assert first.slices == ()
    a.add(names.GENERATION_TOKENS, 20)
    b.add(names.GENERATION_TOKENS, 3)
    second = await scraper.scrape(targets, 15.0)
    (cut,) = second.slices
    assert (cut.start_s, cut.end_s, cut.pod_seconds) == (10.0, 15.0, 10.0)
    assert cut.count(Counter.GENERATION_TOKENS) == 23


@pytest.mark.behaviour(
    "one pod that does not answer holds up no other",
    report="vllm-project/aibrix#1032: one pod without a report blocked the service",
)
async def test_one_bad_pod_blocks_nothing(fleet: Fleet) -> None:
    pods, scraper, base = fleet
    a = engine()
    pods.texts = {"a": a, "broken": None, "hung": a}
    targets = [target(base, name) for name in ("hung", "broken", "a", "unknown")]
    await scraper.scrape(targets, 0.0)
    a.add(names.GENERATION_TOKENS, 5)
    async with asyncio.timeout(2):
        scrape = await scraper.scrape(targets, 5.0)
    assert scrape.pods["uid-a"].data is DataClass.FRESH
    assert "no answer" in scrape.pods["uid-hung"].error
    assert "503" in scrape.pods["uid-broken"].error
    assert scrape.slices[0].count(Counter.GENERATION_TOKENS) == 5


@pytest.mark.parametrize("value", [math.nan, math.inf, -1])
async def test_a_pod_that_reports_no_count_blocks_nothing(fleet: Fleet, value: float) -> None:
    pods, scraper, base = fleet
    odd = engine()
    odd.gauge(names.REQUESTS_RUNNING, value)
    pods.texts = {"a": engine(), "odd": odd}
    scrape = await scraper.scrape([target(base, "a"), target(base, "odd")], 0.0)
    assert scrape.pods["uid-a"].data is DataClass.FRESH
    assert scrape.pods["uid-odd"].data is DataClass.ABSENT
    assert "requests_running" in scrape.pods["uid-odd"].error


async def test_readings_age(fleet: Fleet) -> None:
    pods, scraper, base = fleet
    text = engine()
    text.gauge(names.REQUESTS_RUNNING, 4)
    pods.texts = {"a": text}
    seen = []
    for now_s in (0.0, 15.0, 16.0, 300.0, 301.0):
        seen.append((await scraper.scrape([target(base, "a")], now_s)).pods["uid-a"])
        pods.texts = {}
    classes = [reading.data for reading in seen]
    fresh, stale, absent = DataClass.FRESH, DataClass.STALE, DataClass.ABSENT
    assert classes == [fresh, fresh, stale, stale, absent]
    assert [reading.running for reading in seen] == [4, 4, 4, 4, 0]


async def test_a_missed_round_is_made_up_for(fleet: Fleet) -> None:
    pods, scraper, base = fleet
    a, b = engine(), engine()
    pods.texts = {"a": a, "b": b}
    targets = [target(base, "a"), target(base, "b")]
    await scraper.scrape(targets, 0.0)
    pods.texts["a"] = None
    await scraper.scrape(targets, 5.0)
    a.add(names.GENERATION_TOKENS, 8)
    pods.texts["a"] = a
    scrape = await scraper.scrape(targets, 10.0)
    assert [w.count(Counter.GENERATION_TOKENS) for w in scrape.slices] == [0, 8]
    assert [w.pod_seconds for w in scrape.slices] == [5.0, 15.0]


async def test_a_missed_round_is_no_surge(fleet: Fleet) -> None:
    """What came in meanwhile is spread over the time in which it came."""
    pods, scraper, base = fleet
    a, b = engine(), engine()
    pods.texts = {"a": a, "b": b}
    targets = [target(base, "a"), target(base, "b")]
    for text in (a, b):
        text.add(names.PROMPT_TOKENS_RECEIVED, 0)
    for number in range(4):
        pods.texts["a"] = None if number == 2 else a
        scrape = await scraper.scrape(targets, 5.0 * number)
        for text in (a, b):
            text.add(names.PROMPT_TOKENS_RECEIVED, 50)
    received = [w.count(Counter.PROMPT_TOKENS_RECEIVED) for w in scrape.slices]
    assert received == pytest.approx([100, 100, 100])


async def test_a_round_lost_altogether_makes_a_longer_slice(fleet: Fleet) -> None:
    pods, scraper, base = fleet
    a = engine()
    a.add(names.PROMPT_TOKENS_RECEIVED, 0)
    for number in range(4):
        pods.texts = {} if number == 2 else {"a": a}
        scrape = await scraper.scrape([target(base, "a")], 5.0 * number)
        a.add(names.PROMPT_TOKENS_RECEIVED, 50)
    assert [(w.start_s, w.end_s) for w in scrape.slices] == [(0, 5), (5, 15)]
    rates = [w.rate(Counter.PROMPT_TOKENS_RECEIVED) for w in scrape.slices]
    assert rates == pytest.approx([10, 10])


async def test_after_a_long_gap_the_growth_is_dropped(fleet: Fleet) -> None:
    pods, scraper, base = fleet
    a = engine()
    pods.texts = {"a": a}
    await scraper.scrape([target(base, "a")], 0.0)
    a.add(names.GENERATION_TOKENS, 1000)
    assert (await scraper.scrape([target(base, "a")], 60.0)).slices == ()


async def test_another_uid_is_another_pod_and_the_gone_are_forgotten(fleet: Fleet) -> None:
    pods, scraper, base = fleet
    pods.texts = {"a": engine(500)}
    await scraper.scrape([target(base, "a")], 0.0)
    renewed = Target(uid="new", url=f"{base}/a/metrics")
    scrape = await scraper.scrape([renewed], 5.0)
    assert set(scrape.pods) == {"new"}
    assert scrape.slices == ()


async def test_steps_of_an_old_template_are_not_learned_from(fleet: Fleet) -> None:
    pods, scraper, base = fleet
    a = engine()
    pods.texts = {"a": a}
    old = target(base, "a", current=False)
    await scraper.scrape([old], 0.0)
    a.add(names.STEP_MOMENTS, 9, term="n", **{"class": "mixed"})
    a.add(names.GENERATION_TOKENS, 4)
    (cut,) = (await scraper.scrape([old], 5.0)).slices
    assert cut.moments(StepClass.MIXED).count == 0
    assert cut.count(Counter.GENERATION_TOKENS) == 4


async def test_no_traffic_is_data(fleet: Fleet) -> None:
    pods, scraper, base = fleet
    pods.texts = {"a": engine(3)}
    await scraper.scrape([target(base, "a")], 0.0)
    (cut,) = (await scraper.scrape([target(base, "a")], 5.0)).slices
    assert cut.count(Counter.GENERATION_TOKENS) == 0
    assert cut.pod_seconds == 5.0


async def test_slices_older_than_the_history_go(fleet: Fleet) -> None:
    pods, scraper, base = fleet
    pods.texts = {"a": engine()}
    for tick in range(70):
        scrape = await scraper.scrape([target(base, "a")], 5.0 * tick)
    assert len(scrape.slices) == 60
    assert scrape.slices[0].start_s >= scrape.slices[-1].end_s - 300.0


async def test_the_same_cause_reads_the_same_of_all_pods(fleet: Fleet) -> None:
    pods, scraper, base = fleet
    pods.texts = {}
    refusing = [
        Target(uid=f"uid-{port}", url=f"http://127.0.0.1:{port}/metrics") for port in (1, 2)
    ]
    scrape = await scraper.scrape([target(base, "a"), target(base, "b"), *refusing], 0.0)
    found = [scrape.pods[uid].error for uid in ("uid-a", "uid-b", "uid-1", "uid-2")]
    assert found == ["answered 503"] * 2 + ["Connection refused"] * 2


async def test_an_address_that_refuses(fleet: Fleet) -> None:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(ScrapeError, match="http"):
            await HttpFetch(session)("http://127.0.0.1:1/metrics")


def late(ttft: int, itl: int, e2e: int) -> EngineText:
    text = engine()
    for family, count in ((names.TTFT, ttft), (names.ITL, itl), (names.DURATION, e2e)):
        for tier in ("interactive", "batch"):
            for _ in range(count):
                text.observe(family, 0.05, tier=tier)
    return text


async def test_latencies_are_kept_that_objectives_are_about(fleet: Fleet) -> None:
    """One that is asked for anew begins to grow then: what came before it is no growth."""
    pods, scraper, base = fleet
    one = frozenset({(Latency.ITL, "interactive")})
    two = frozenset({(Latency.E2E, "interactive"), (Latency.ITL, "batch")})
    found: list[dict[str, float]] = []
    for place, judged in enumerate((one, one, two, two)):
        scraper.judge(judged)
        pods.texts["a"] = late(1 + place, 10 + place, 100 + place)
        slices = (await scraper.scrape([target(base, "a")], 100.0 + 5 * place)).slices
        if place:
            grown = slices[-1]
            found.append(
                {r.value: h.samples for r, h in grown.histograms.items()}
                | {f"batch {r.value}": h.samples for r, h in grown.batch.items()}
            )
    assert found == [
        {"ttft": 1, "itl": 1},
        {"ttft": 1},
        {"ttft": 1, "e2e": 1, "batch itl": 1},
    ]
