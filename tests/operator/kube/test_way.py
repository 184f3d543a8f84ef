"""The way to an API server that a kubeconfig names: a proxy, and a name for its certificate."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_asyncio.client import Configuration

from e2e.cluster.pki import Authority, Subject
from paceline_operator.kube.client import KubeClient, Object, load_configuration
from paceline_operator.kube.errors import UnavailableError
from paceline_operator.kube.kubeconfig import ConfigError, read_kubeconfig

Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

NAME = "api.inside"
BODY = b'{"kind": "APIVersions"}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(BODY), BODY)


async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(ANSWER)


class Proxy:
    """Tells apart what it tunnels and what it fetches.

    Attributes:
        port: Of the server that every tunnel leads to.
        asked: First lines of the requests so far.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.asked: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()[0]
        self.asked.append(line)
        if not line.startswith("CONNECT "):
            writer.write(ANSWER)
            return
        there = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(carried(reader, there[1]), carried(there[0], writer))


async def carried(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while some := await reader.read(65536):
        writer.write(some)
    await closed(writer)


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


@contextlib.asynccontextmanager
async def served(handle: Handle, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    doing: set[asyncio.Task[Any]] = set()

    async def served_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        doing.add(task)
        await handle(reader, writer)
        await closed(writer)

    server = await asyncio.start_server(served_one, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]
        await asyncio.gather(*doing)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def tls(authority: Authority) -> ssl.SSLContext:
    pair = authority.issue("server", Subject("api", hosts=(f"DNS:{NAME}",)))
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.load_cert_chain(pair.certificate, pair.key)
    return found


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    return tmp_path / "config"


def write(file: Path, **cluster: object) -> None:
    document = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }
    file.write_text(yaml.safe_dump(document))


async def asked() -> Object:
    configuration = Configuration()
    await read_kubeconfig(configuration, None)
    async with KubeClient(configuration) as client:
        return await client.get("/api")


async def test_the_certificate_is_checked_against_the_name_in_the_file(
    file: Path, authority: Authority, tls: ssl.SSLContext
) -> None:
    async with served(answered, tls) as port:
        where = {
            "server": f"https://127.0.0.1:{port}",
            "certificate-authority": str(authority.ca.certificate),
        }
        write(file, **where)
        with pytest.raises(UnavailableError, match="certificate verify failed"):
            await asked()
        write(file, **where, **{"tls-server-name": NAME})
        assert await asked() == {"kind": "APIVersions"}


async def test_a_tunnel_leads_through_the_proxy_in_the_file(
    file: Path, authority: Authority, tls: ssl.SSLContext
) -> None:
    async with served(answered, tls) as port:
        proxy = Proxy(port)
        async with served(proxy.serve) as way:
            write(
                file,
                **{
                    "server": "https://10.255.255.1:6443",
                    "certificate-authority": str(authority.ca.certificate),
                    "tls-server-name": NAME,
                    "proxy-url": f"http://127.0.0.1:{way}",
                },
            )
            assert await asked() == {"kind": "APIVersions"}
    assert proxy.asked == ["CONNECT 10.255.255.1:6443 HTTP/1.1"]


async def test_a_server_without_tls_is_asked_through_the_proxy_too(file: Path) -> None:
    proxy = Proxy(0)
    async with served(proxy.serve) as way:
        write(file, **{"server": f"http://{NAME}", "proxy-url": f"http://127.0.0.1:{way}"})
        assert await asked() == {"kind": "APIVersions"}
    assert proxy.asked == [f"GET http://{NAME}/api HTTP/1.1"]


async def test_the_proxy_of_the_environment_is_followed_where_the_file_names_none(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    near, far = Proxy(0), Proxy(0)
    async with served(near.serve) as way, served(far.serve) as other:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{way}")
        write(file, server=f"http://{NAME}")
        assert await asked() == {"kind": "APIVersions"}
        write(file, **{"server": f"http://{NAME}", "proxy-url": f"http://127.0.0.1:{other}"})
        assert await asked() == {"kind": "APIVersions"}
    assert near.asked == far.asked == [f"GET http://{NAME}/api HTTP/1.1"]


async def test_a_proxy_of_the_environment_that_is_no_http_proxy_is_said(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(file, server="https://10.1.2.3:6443")
    monkeypatch.setenv("HTTPS_PROXY", "socks5://127.0.0.1:1080")
    with pytest.raises(ConfigError, match="HTTPS_PROXY: 'socks5://127"):
        await asked()


@pytest.mark.parametrize(
    "proxy", ["socks5://127.0.0.1:1080", "127.0.0.1:3128", "http://", "http://[", "proxy", 3128]
)
async def test_what_is_no_http_proxy_is_said(file: Path, proxy: object) -> None:
    write(file, **{"server": "https://127.0.0.1:1", "proxy-url": proxy})
    said = re.escape(f"{file}: proxy-url: {proxy!r} is no http proxy")
    with pytest.raises(ConfigError, match=said):
        await asked()


@pytest.mark.parametrize("name", [5, "a..b", "a" * 64, "ä", "a b"])
async def test_what_is_no_name_of_a_server_is_said(file: Path, name: object) -> None:
    write(file, **{"server": "https://127.0.0.1:1", "tls-server-name": name})
    with pytest.raises(ConfigError, match=r"tls-server-name: .* is no name of a server"):
        await asked()


async def test_an_operator_is_not_started_whose_watches_could_not_use_the_name(file: Path) -> None:
    write(file, **{"server": "https://127.0.0.1:1", "tls-server-name": NAME})
    with pytest.raises(ConfigError, match=f"tls-server-name '{NAME}' is not for the operator"):
        await load_configuration()
