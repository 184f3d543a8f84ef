"""Answers of an API server that are no objects."""

from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes_asyncio.client import Configuration

from paceline_operator.kube import client
from paceline_operator.kube.errors import InvalidError, NotFoundError, UnavailableError

PAGE = "<html>\n<b>Zeitüberschreitung</b>\n</html>"


def test_an_answer_nested_too_deeply_is_refused_in_one_line() -> None:
    with pytest.raises(InvalidError) as refused:
        client._read("GET", "/apis/x", 200, "[" * 200_000)
    assert str(refused.value) == "GET /apis/x: the answer is nested too deeply to be read"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"message": "no such thing"}', "no such thing"),
        ("404 page not found", "404 page not found"),
        ('{"message": null}', ""),
        ("[]", ""),
    ],
)
def test_an_error_keeps_the_servers_own_words(text: str, said: str) -> None:
    with pytest.raises(NotFoundError) as missing:
        client._read("GET", "/apis/x", 404, text)
    assert missing.value.said == said
    assert str(missing.value) == f"GET /apis/x: 404 {said}".strip()


@pytest.mark.parametrize("charset", ["", "; charset=latin-1", "; charset=hex", "; charset=none"])
async def test_a_page_in_another_encoding_is_a_server_that_is_away(charset: str) -> None:
    async def page(_: web.Request) -> web.Response:
        given = {"Content-Type": f"text/html{charset}"}
        return web.Response(status=502, body=PAGE.encode("latin-1"), headers=given)

    app = web.Application()
    app.router.add_get("/api", page)
    configuration = Configuration()
    async with TestServer(app) as server:
        configuration.host = str(server.make_url("")).rstrip("/")
        async with client.KubeClient(configuration) as asking:
            with pytest.raises(UnavailableError) as away:
                await asking.get("/api")
    said = "GET /api: 502 <html> <b>Zeit\N{REPLACEMENT CHARACTER}berschreitung</b> </html>"
    assert str(away.value) == said


def test_a_page_is_no_object() -> None:
    with pytest.raises(UnavailableError) as away:
        client._read("GET", "/apis/x", 200, PAGE)
    assert str(away.value) == "GET /apis/x: 200, and no object of an API"
