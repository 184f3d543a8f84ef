"""Asking a Prometheus server over HTTP."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from typing_extensions import override

from paceline_operator.autopilot.vocabulary.fleet import DataClass
from paceline_operator.autopilot.vocabulary.window import Counter, Latency, StepClass, Window, merge
from paceline_operator.metrics import PrometheusServer, PrometheusSource, Scraper, Target, names
from paceline_operator.metrics.errors import ScrapeError
from paceline_operator.metrics.prometheus import MOST_QUERIES
from tests.operator.metrics.prometheus_answer import matrix, series
from tests.operator.metrics.text import EngineText

A, B = (Target(uid=f"uid-{n}", url="", namespace="d", name=f"chat-{n}") for n in "ab")


class Server:
    """Answers each query with what is set, and keeps what it was asked."""

    def __init__(self) -> None:
        self.body: bytes | None = matrix()
        self.status = 200
        self.asked: list[dict[str, str]] = []
        self.headers: list[Any] = []
        self.hung = asyncio.Event()

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append({k: str(v) for k, v in (await request.post()).items()})
        self.headers.append(request.headers)
        if self.body is None:
            await self.hung.wait()
        kind = "application/json" if (self.body or b"").startswith(b"{") else "text/html"
        return web.Response(body=self.body, status=self.status, content_type=kind)


@pytest.fixture
async def server() -> AsyncIterator[tuple[Server, PrometheusServer]]:
    made, app = Server(), web.Application()
    app.router.add_post("/under/api/v1/query", made.answer)
    async with TestServer(app) as running:
        url = str(running.make_url("/under/"))
        yield made, PrometheusServer(url=url, interval_s=5.0, timeout_s=0.3)
        made.hung.set()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as made:
        yield made


Asked = tuple[Server, PrometheusServer]


def engine(tokens: float) -> EngineText:
    text = EngineText()
    text.add(names.GENERATION_TOKENS, tokens)
    return text


async def test_one_query_asks_for_all_pods_and_for_what_is_read_alone(
    server: Asked, session: aiohttp.ClientSession
) -> None:
    made, where = server
    where = replace(where, namespace_label="kubernetes_namespace", pod_label="kubernetes_pod",
                    matchers={"cluster": 'e"u\\1'})  # fmt: skip
    dotted = replace(B, name="chat.b")
    await PrometheusSource(session, where).read((A, dotted), 1234.5)
    (form,) = made.asked
    assert (form["time"], form["timeout"]) == ("1234.500", "0.300")
    query = form["query"]
    assert query.endswith("}[25s]")
    assert 'kubernetes_namespace="d"' in query
    assert r'kubernetes_pod=~"chat-a|chat\\.b"' in query
    assert r'cluster="e\"u\\1"' in query
    (wanted,) = re.findall(r'__name__=~"([^"]*)"', query)
    assert "paceline_engine_time_to_first_token_seconds_bucket" in wanted.split("|")
    assert "paceline_engine_goodput_requests_total" not in wanted.split("|")


async def test_growth_between_two_answers_is_a_slice_between_their_samples(
    server: Asked, session: aiohttp.ClientSession
) -> None:
    made, where = server
    scraper = Scraper(PrometheusSource(session, where))
    made.body = matrix(series(engine(10), 98.0, pod="chat-a"), series(engine(1), 99, pod="chat-b"))
    await scraper.scrape([A, B], 100.0)
    made.body = matrix(
        *(series(engine(count), at_s, pod="chat-a") for at_s, count in ((98.0, 10), (103.0, 30))),
        *(series(engine(count), at_s, pod="chat-b") for at_s, count in ((99.0, 1), (104.0, 4))),
    )
    scrape = await scraper.scrape([A, B], 105.0)
    (cut,) = scrape.slices
    assert (cut.start_s, cut.end_s, cut.pod_seconds) == (98.0, 103.0, 9.0)
    assert cut.count(Counter.GENERATION_TOKENS) == 23
    assert scrape.pods["uid-a"].read_at_s == 103.0


async def test_the_same_sample_again_is_no_news_and_ages(
    server: Asked, session: aiohttp.ClientSession
) -> None:
    made, where = server
    scraper = Scraper(PrometheusSource(session, where))
    made.body = matrix(series(engine(10), 98.0, pod="chat-a"))
    for now_s in (100.0, 105.0, 113.0):
        scrape = await scraper.scrape([A], now_s)
        assert (scrape.slices, scrape.pods["uid-a"].data) == ((), DataClass.FRESH)
    assert (await scraper.scrape([A], 113.1)).pods["uid-a"].data is DataClass.STALE


async def test_of_two_replicas_one_is_read_until_it_is_stale(
    server: Asked, session: aiohttp.ClientSession
) -> None:
    """The clock of the second is ahead: its counters are older than its times say."""
    made, where = server
    scraper = Scraper(PrometheusSource(session, where))

    scraped: list[list[dict[str, Any]]] = []

    async def ask(now_s: float, first: tuple[float, float], second: tuple[float, float]) -> Any:
        for number, (at_s, tokens) in enumerate((first, second)):
            found = series(engine(tokens), at_s, pod="chat-a", replica=str(number))
            if found not in scraped:
                scraped.append(found)
        made.body = matrix(*scraped)
        return await scraper.scrape([A], now_s)

    await ask(100.0, (99.0, 50), (98.0, 48))
    scrape = await ask(105.0, (104.0, 60), (104.5, 55))
    assert scrape.slices[-1].count(Counter.GENERATION_TOKENS) == 10
    # The first is away. No base line leads from one to the other.
    scrape = await ask(120.0, (104.0, 60), (119.0, 200))
    assert len(scrape.slices) == 1
    scrape = await ask(125.0, (104.0, 60), (124.0, 206))
    assert scrape.slices[-1].count(Counter.GENERATION_TOKENS) == 6


async def test_a_pod_without_samples_leaves_the_others_alone(
    server: Asked, session: aiohttp.ClientSession
) -> None:
    made, where = server
    made.body = matrix(series(engine(1), 9.0, pod="chat-a"))
    found = await PrometheusSource(session, where).read((A, B), 10.0)
    assert isinstance(found["uid-a"], tuple)
    assert "no sample of pod chat-b in the last 15 s" in str(found["uid-b"])


FAILURES: dict[str, tuple[bytes | None, int, str]] = {
    "hung": (None, 200, "no answer in 0.3 s"),
    "a proxy's page": (b"<html>", 502, "answered 502"),
    "a refusal": (b'{"status":"error","errorType":"bad_data","error":"why"}', 400, "bad_data: why"),
    "another page": (b"<html>", 200, "no answer of a Prometheus server"),
    "a refusal in other words": (b'{"message":"no rights"}', 403, "no answer of a Prometheus"),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_a_server_that_fails_is_an_error_of_every_pod(
    name: str, server: Asked, session: aiohttp.ClientSession
) -> None:
    made, where = server
    made.body, made.status, said = FAILURES[name]
    found = await PrometheusSource(session, where).read((A, B), 10.0)
    for error in found.values():
        assert isinstance(error, ScrapeError)
        assert said in str(error)
        assert "/under/api/v1/query" in str(error)


async def test_a_server_that_hangs_is_asked_by_few_at_once_and_not_for_longer(
    server: Asked, session: aiohttp.ClientSession
) -> None:
    made, where = server
    made.body = None
    source = PrometheusSource(session, where)
    began_s = asyncio.get_running_loop().time()
    reading = [asyncio.create_task(source.read((A,), 10.0)) for _ in range(3 * MOST_QUERIES)]
    await asyncio.sleep(where.timeout_s / 2)
    assert len(made.asked) == MOST_QUERIES
    found = await asyncio.gather(*reading)
    assert asyncio.get_running_loop().time() - began_s < 3 * where.timeout_s
    assert all("no answer in 0.3 s" in str(each["uid-a"]) for each in found)


async def test_the_token_is_read_anew_and_its_absence_is_an_error(
    server: Asked, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    made, where = server
    file = tmp_path / "token"
    source = PrometheusSource(session, replace(where, token_file=file))
    assert "No such file" in str((await source.read((A,), 1.0))["uid-a"])
    for token in ("one", "two"):
        file.write_text(f"{token}\n")
        await source.read((A,), 1.0)
    assert [each["Authorization"] for each in made.headers] == ["Bearer one", "Bearer two"]


async def test_rounds_that_drift_against_the_servers_make_no_surge(
    server: Asked, session: aiohttp.ClientSession
) -> None:
    """It is asked each 5.3 s and scrapes each 5 s: now and then a round finds two scrapes."""
    made, where = server
    scraper = Scraper(PrometheusSource(session, where))
    rates: list[float] = []
    for number in range(24):
        now_s = 100.0 + 5.3 * number
        parts = []
        for pod, phase_s in (("chat-a", 0.1), ("chat-b", 0.2)):
            last = int((now_s - phase_s) // 5)
            for at_s in (5.0 * each + phase_s for each in range(last - 3, last + 1)):
                text = EngineText()
                text.add(names.PROMPT_TOKENS_RECEIVED, 40 * at_s)
                parts.append(series(text, at_s, pod=pod))
        made.body = matrix(*parts)
        slices = (await scraper.scrape([A, B], now_s)).slices
        rates += [each.rate(Counter.PROMPT_TOKENS_RECEIVED) for each in slices]
    assert len(slices) >= 20
    # A slice that begins with the first pod lacks the tenth of a second of the other.
    assert min(rates) > 0.98 * 80
    assert max(rates) < 1.001 * 80
    assert sum(each.length_s for each in slices) == pytest.approx(
        slices[-1].end_s - slices[0].start_s
    )


class Scraping(Server):
    """Has scraped a pod each so many seconds, and answers with what the query's window holds."""

    every_s = 3.0

    @override
    async def answer(self, request: web.Request) -> web.Response:
        form = await request.post()
        (window,) = re.findall(r"\[(\d+)s\]$", str(form["query"]))
        last, first = float(str(form["time"])), float(str(form["time"])) - float(window)
        times = [self.every_s * n for n in range(int(last // self.every_s) + 1)]
        scrapes = [series(engine(40 * at_s), at_s, pod="chat-a") for at_s in times if at_s > first]
        self.body = matrix(*scrapes)
        return await super().answer(request)


@pytest.mark.parametrize("server_every_s", [1.0, 2.0, 3.0, 5.0, 15.0])
@pytest.mark.parametrize("asked_every_s", [1.0, 5.0, 12.5, 15.0])
async def test_growth_is_seen_however_much_rarer_the_server_is_asked_than_it_scrapes(
    server_every_s: float, asked_every_s: float, session: aiohttp.ClientSession
) -> None:
    made, app = Scraping(), web.Application()
    made.every_s = server_every_s
    app.router.add_post("/api/v1/query", made.answer)
    async with TestServer(app) as running:
        where = PrometheusServer(url=str(running.make_url("")), interval_s=server_every_s)
        source = PrometheusSource(session, where)
        source.interval_s = every_s = max(server_every_s, asked_every_s)
        scraper = Scraper(source)
        for number in range(6):
            scrape = await scraper.scrape([A], 100.0 + number * every_s)
            assert scrape.pods["uid-a"].data is DataClass.FRESH
            assert len(scrape.slices) == number
    assert all(each.rate(Counter.GENERATION_TOKENS) == 40 for each in scrape.slices)


def partial(text: EngineText, at_s: float, *lacks: str) -> list[dict[str, Any]]:
    """A scrape of which some series have not arrived."""
    return [
        each for each in series(text, at_s, pod="chat-a") if each["metric"]["__name__"] not in lacks
    ]


LATE = {
    "a counter": names.GENERATION_TOKENS.full_name,
    "a histogram": f"{names.TTFT.full_name}_bucket",
    "its sum": f"{names.TTFT.full_name}_sum",
    "step moments": names.STEP_MOMENTS.full_name,
    "objectives": names.SLO_SAMPLES.full_name,
}


@pytest.mark.parametrize("late", LATE.values(), ids=LATE.keys())
@pytest.mark.parametrize("in_the_first", [False, True])
async def test_a_scrape_that_arrives_in_parts_makes_no_growth_of_a_lifetime(
    late: str, in_the_first: bool, server: Asked, session: aiohttp.ClientSession
) -> None:
    made, where = server
    scraper = Scraper(PrometheusSource(session, where))

    def total(count: int) -> EngineText:
        text = engine(1000 + count)
        text.observe(names.TTFT, *[0.2] * (500 + count))
        text.add(names.STEP_MOMENTS, 7000 + count, term="n", **{"class": "mixed"})
        text.add(names.SLO_SAMPLES, 900 + count, slo="x", metric="TTFT", target_ms="500",
                 outcome="good")  # fmt: skip
        return text

    scrapes = [(98.0 + 5 * number, total(number)) for number in range(5)]
    slices: tuple[Window, ...] = ()
    for number in range(5):
        newest = 0 if in_the_first else 2
        shown = [
            partial(text, at_s, *([late] if number == newest == place else []))
            for place, (at_s, text) in enumerate(scrapes[: number + 1])
        ]
        made.body = matrix(*shown)
        slices = (await scraper.scrape([A], 100.0 + 5 * number)).slices
    grown = merge(slices)
    assert grown.count(Counter.GENERATION_TOKENS) == 4
    assert grown.histogram(Latency.TTFT).samples == 4
    assert grown.histogram(Latency.TTFT).total == pytest.approx(0.8)
    assert grown.moments(StepClass.MIXED).count == 4
    assert [each.good for each in grown.slo.values()] == [4]


async def test_what_an_engine_begins_to_report_counts_from_nothing(
    server: Asked, session: aiohttp.ClientSession
) -> None:
    made, where = server
    scraper = Scraper(PrometheusSource(session, where))
    one, two = engine(10), engine(10)
    two.add(names.STEPS_AT_BUDGET, 3)
    made.body = matrix(series(one, 98.0, pod="chat-a"))
    await scraper.scrape([A], 100.0)
    made.body = matrix(series(one, 98.0, pod="chat-a"), series(two, 103.0, pod="chat-a"))
    (cut,) = (await scraper.scrape([A], 105.0)).slices
    assert cut.count(Counter.STEPS_AT_BUDGET) == 3
