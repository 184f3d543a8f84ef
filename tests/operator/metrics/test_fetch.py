"""What a pod may answer with, and what it may not."""

from __future__ import annotations

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from paceline_operator.metrics import HttpFetch
from paceline_operator.metrics.errors import ScrapeError
from paceline_operator.metrics.fetch import MAX_BYTES


async def fetched(reply: web.StreamResponse, asked: list[str]) -> str:
    async def pod(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        return reply if request.path == "/metrics" else web.Response(text="secret 1")

    app = web.Application()
    app.router.add_get("/{path}", pod)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        return await HttpFetch(session)(str(server.make_url("/metrics")))


async def test_the_text_of_an_answer() -> None:
    assert await fetched(web.Response(text="a 1\n"), []) == "a 1\n"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_pod_leads_nobody_elsewhere(status: int) -> None:
    """What is there would be quoted in the status, for all who may read that."""
    asked: list[str] = []
    with pytest.raises(ScrapeError, match=f"answered {status}"):
        await fetched(web.Response(status=status, headers={"Location": "/internal"}), asked)
    assert asked == ["/metrics"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"a" * (MAX_BYTES + 1), f"answer above {MAX_BYTES} bytes"),
        (b'a{b="\xff"} 1', "answer is not UTF-8"),
    ],
)
async def test_what_is_no_text_of_metrics(body: bytes, said: str) -> None:
    with pytest.raises(ScrapeError, match=said):
        await fetched(web.Response(body=body), [])


async def test_the_longest_answer_is_read() -> None:
    assert len(await fetched(web.Response(body=b"a" * MAX_BYTES), [])) == MAX_BYTES
