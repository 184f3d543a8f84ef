"""A real Prometheus server as the source of metrics tells what reading the pods tells.

One that is not installed fails these tests: `python3 -m e2e.setup prometheus` brings it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from paceline_operator.autopilot.vocabulary.fleet import DataClass
from paceline_operator.autopilot.vocabulary.window import Counter, Latency, StepClass, Window, merge
from paceline_operator.metrics import (
    DirectSource,
    HttpFetch,
    PrometheusServer,
    PrometheusSource,
    Scrape,
    Scraper,
    Target,
    names,
)
from tests.operator.metrics.text import EngineText
from tests.support.apiserver import free_ports
from tests.support.prometheus_server import Scraped, prometheus

pytestmark = pytest.mark.timeout(180)

NAMES = ("chat-a", "chat-b.2")
SEEN_S = 60.0
SERVER = PrometheusServer(url="", interval_s=10.0)
"""The real one scrapes each second: how loaded this machine is must not decide a test."""


class Engines:
    """Metrics of pretended engines over real HTTP; one without answers 503."""

    def __init__(self) -> None:
        self.texts: dict[str, EngineText] = {name: engine() for name in NAMES}

    async def answer(self, request: web.Request) -> web.Response:
        text = self.texts.get(request.match_info["name"])
        return web.Response(text=text.render()) if text else web.Response(status=503)


def engine(started_s: float = 100.0) -> EngineText:
    text = EngineText(started_s)
    serve(text, 0)
    return text


def serve(text: EngineText, times: int) -> None:
    """Counts of some work, in families of every kind."""
    text.add(names.PROMPT_TOKENS_RECEIVED, 100 * times)
    text.add(names.REQUESTS, times, outcome="stop")
    text.add(names.REQUESTS, 2 * times, outcome="length", tier="batch")
    text.add(names.STEP_MOMENTS, 7 * times, term="n", **{"class": "mixed"})
    text.add(names.STEP_MOMENTS, 0.125 * times, term="t", **{"class": "mixed"})
    slo = {"slo": "first", "metric": "TTFT", "target_ms": "500"}
    text.add(names.SLO_SAMPLES, times, **slo, outcome="good")
    for tier in ("interactive", "batch"):
        text.observe(names.TTFT, *[0.0625, 0.25, 9.0] * times, tier=tier)
    text.gauge(names.REQUESTS_WAITING, 3 * times)
    text.gauge(names.KV_USAGE, 0.25)
    text.gauge(names.CACHE_CONFIG, 1, block_size="16", num_gpu_blocks="1000")


class Site:
    """Two scrapers over the same engines."""

    def __init__(self, session: aiohttp.ClientSession, engines: Engines, base: str, url: str):
        self.engines = engines
        self.targets = tuple(
            Target(uid=f"uid-{name}", url=f"{base}/{name}/metrics", namespace="d", name=name)
            for name in NAMES
        )
        self.direct = Scraper(DirectSource(HttpFetch(session), SERVER.interval_s))
        self.through = Scraper(PrometheusSource(session, replace(SERVER, url=url)))

    async def round(self) -> tuple[Scrape, Scrape]:
        """A round of each, once the server has scraped what the engines show now."""
        since_s = time.time()
        alive = [t.uid for t in self.targets if t.name in self.engines.texts]
        while True:
            now_s = time.time()
            through = await self.through.scrape(self.targets, now_s)
            if all((through.pods[uid].read_at_s or 0.0) > since_s for uid in alive):
                return await self.direct.scrape(self.targets, now_s), through
            assert now_s < since_s + SEEN_S, [p.error for p in through.pods.values()]
            await asyncio.sleep(0.2)


class Jobs:
    """A server that scrapes the engines of a test, once for each job."""

    def __init__(self, directory: Path) -> None:
        self._stack = ExitStack()
        self._directory = directory
        (self.engines_port,) = free_ports(1)

    def start(self, count: int) -> str:
        address = f"127.0.0.1:{self.engines_port}"
        pods = [
            Scraped(address, f"/{name}/metrics", {"namespace": "d", "pod": name, "tier": "x"})
            for name in NAMES
        ]
        jobs = {f"job-{number}": pods for number in range(count)}
        return self._stack.enter_context(prometheus(self._directory, jobs))

    def stop(self) -> None:
        self._stack.close()


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    made = Jobs(tmp_path)
    yield made
    made.stop()


@pytest.fixture(params=[1, 2], ids=["one-job", "two-jobs"])
async def site(jobs: Jobs, request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    url = jobs.start(request.param)
    engines, app = Engines(), web.Application()
    app.router.add_get("/{name}/metrics", engines.answer)
    async with (
        TestServer(app, port=jobs.engines_port) as server,
        aiohttp.ClientSession() as session,
    ):
        yield Site(session, engines, str(server.make_url("")).rstrip("/"), url)


def same(direct: Scrape, through: Scrape) -> None:
    """Both tell the same, but for the moments at which they tell it."""
    for uid, reading in direct.pods.items():
        assert replace(through.pods[uid], read_at_s=reading.read_at_s) == reading
    told, expected = (content(merge(scrape.slices)) for scrape in (through, direct))
    assert told == expected


def content(window: Window) -> Window:
    return replace(window, start_s=0.0, end_s=0.0, pod_seconds=0.0)


async def test_both_sources_tell_the_same(site: Site) -> None:
    await site.round()
    for times in (3, 0, 5):
        for text in site.engines.texts.values():
            serve(text, times)
        await site.round()
    # What a pod received after the other was scraped is booked with the next round.
    direct, through = await site.round()
    same(direct, through)
    grown = merge(through.slices)
    assert grown.count(Counter.PROMPT_TOKENS_RECEIVED) == 2 * 800
    assert grown.count(Counter.REQUESTS_FINISHED) == 2 * 24
    assert grown.histograms[Latency.TTFT].samples == 2 * 24
    assert grown.steps[StepClass.MIXED].of("t") == 2 * 8 * 0.125
    assert through.pods["uid-chat-a"].batch_waiting == 0
    assert through.pods["uid-chat-a"].waiting == 15
    # Growth lies in rounds one after the other, as when pods are read.
    ends = [each.end_s for each in through.slices]
    assert ends == sorted(ends)


async def test_a_restarted_engine_counts_from_zero_in_both(site: Site) -> None:
    for text in site.engines.texts.values():
        serve(text, 9)
    await site.round()
    site.engines.texts["chat-a"] = engine(started_s=200.0)
    serve(site.engines.texts["chat-a"], 2)
    await site.round()
    direct, through = await site.round()
    same(direct, through)
    assert merge(through.slices).count(Counter.PROMPT_TOKENS_RECEIVED) == 200


async def test_a_dead_pod_ages_and_the_others_stay_fresh(site: Site) -> None:
    await site.round()
    del site.engines.texts["chat-b.2"]
    serve(site.engines.texts["chat-a"], 1)
    _, through = await site.round()
    died_s = through.pods["uid-chat-b.2"].read_at_s
    for _ in range(2):
        await asyncio.sleep(1.5)
        _, through = await site.round()
    dead, alive = through.pods["uid-chat-b.2"], through.pods["uid-chat-a"]
    # A mark of staleness is no sample: the last one stays what it was.
    assert dead.read_at_s == died_s
    assert alive.data is DataClass.FRESH
    later = await site.through.scrape(site.targets, time.time() + 3 * SERVER.interval_s)
    assert "no sample of pod chat-b.2" in later.pods["uid-chat-b.2"].error
    assert later.pods["uid-chat-b.2"].data is DataClass.STALE
    gone = await site.through.scrape(site.targets, time.time() + 301)
    assert gone.pods["uid-chat-b.2"].data is DataClass.ABSENT


@pytest.mark.parametrize("site", [1], indirect=True)
async def test_an_outage_ages_all_pods(site: Site, jobs: Jobs) -> None:
    await site.round()
    jobs.stop()
    scrape = await site.through.scrape(site.targets, time.time())
    assert {reading.data for reading in scrape.pods.values()} == {DataClass.FRESH}
    assert all("/api/v1/query" in reading.error for reading in scrape.pods.values())
    later = await site.through.scrape(site.targets, time.time() + 3 * SERVER.interval_s)
    assert {reading.data for reading in later.pods.values()} == {DataClass.STALE}
