"""The proxy's configuration, checked by HAProxy itself."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from paceline_operator.domain import proxy
from tests.support.fleet import PLATFORM, spec

HAPROXY = "/usr/sbin/haproxy"
PIECES = 10
SPEC = spec(rollout={"drainSeconds": 60})


OWNED = {"manager": "paceline", "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
OTHERS = {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:replicas": {}}}}


@pytest.mark.parametrize(
    ("number", "entries", "declared"),
    [
        (0, [OWNED], 1),
        (0, [OTHERS], 1),
        (1, [OWNED], 1),
        (1, [OTHERS], None),
        (2, [OTHERS], None),
        (2, [OWNED], None),
        (2, [], None),
    ],
)
def test_replicas_above_none_are_whose_who_wrote_them(
    number: int, entries: list[dict[str, object]], declared: int | None
) -> None:
    live = {"metadata": {"managedFields": entries}, "spec": {"replicas": number}}
    assert proxy.replicas(live) == declared


def test_a_proxy_that_is_missing_is_made_with_one() -> None:
    assert proxy.replicas(None) == 1


def test_haproxy_accepts_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "haproxy.cfg"
    file.write_text(proxy.config("chat", "team-a", SPEC, PLATFORM.cluster_domain))
    done = subprocess.run(
        [HAPROXY, "-c", "-f", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "[WARNING]" not in done.stderr


def test_servers_are_found_by_the_headless_service() -> None:
    text = proxy.config("chat", "team-a", SPEC, PLATFORM.cluster_domain)
    assert "server-template engine 1-64 _http._tcp.chat-pods.team-a.svc.cluster.local" in text
    assert "chat-pods.team-a.svc.k8s.example" in proxy.config("chat", "team-a", SPEC, "k8s.example")


def test_a_pod_that_cannot_be_reached_costs_no_request() -> None:
    text = proxy.config("chat", "team-a", SPEC, PLATFORM.cluster_domain)
    for line in (
        "option redispatch 1", "retry-on conn-failure 503", "timeout connect 1s",
        "check port 8001 inter 500ms fall 2 rise 1", "timeout check 2s", "balance leastconn",
        "option http-server-close", "hold obsolete 0s", "accepted_payload_size 8192",
    ):  # fmt: skip
        assert line in text


def test_a_stopping_proxy_gives_streams_the_drain_time() -> None:
    template = proxy.template("chat", SPEC, PLATFORM, "digest")
    assert "hard-stop-after 60s" in proxy.config("chat", "team-a", SPEC, PLATFORM.cluster_domain)
    assert template["spec"]["terminationGracePeriodSeconds"] == 5 + 60 + 10
    stop = template["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][-1]
    assert "kill -USR1 1" in stop


def test_the_proxy_is_confined() -> None:
    template = proxy.template("chat", SPEC, PLATFORM, "digest")
    container = template["spec"]["containers"][0]
    assert template["spec"]["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["volumeMounts"][0]["readOnly"] is True


def test_a_new_configuration_rolls_the_proxy() -> None:
    one = proxy.template("chat", SPEC, PLATFORM, "a")
    other = proxy.template("chat", SPEC, PLATFORM, "b")
    assert one["metadata"]["annotations"] != other["metadata"]["annotations"]


async def test_each_streamed_piece_passes_at_once(tmp_path: Path) -> None:
    """Without `http-no-delay` HAProxy holds pieces back for 150 ms, to send several at once."""
    seen = asyncio.Event()

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(PIECES):
            seen.clear()
            writer.write(b"3\r\nabc\r\n")
            await writer.drain()
            await seen.wait()
        writer.write(b"0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    backend = server.sockets[0].getsockname()[1]
    async with server, _running_proxy(tmp_path, backend) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        started = time.monotonic()
        for _ in range(PIECES):
            await reader.readuntil(b"abc\r\n")
            seen.set()
        took_s = time.monotonic() - started
        writer.close()
    assert took_s < PIECES * 0.1


@pytest.mark.parametrize(
    ("server", "path", "status"),
    [("no-check", "/readyz", 200), ("disabled", "/readyz", 503), ("disabled", "/healthz", 200)],
)
async def test_it_is_ready_once_it_knows_a_ready_engine_and_alive_without(
    tmp_path: Path, server: str, path: str, status: int
) -> None:
    async with _running_proxy(tmp_path, 1, server):
        socket_path = str(tmp_path / "health.sock")
        reader, writer = await asyncio.open_unix_connection(socket_path)
        writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        line = await reader.readline()
        writer.close()
    assert int(line.split()[1]) == status


@contextlib.asynccontextmanager
async def _running_proxy(
    folder: Path, backend: int, server: str = "no-check"
) -> AsyncIterator[int]:
    """HAProxy with the rendered configuration, in front of one server on loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    text = proxy.config("chat", "team-a", SPEC, PLATFORM.cluster_domain)
    text = re.sub(r"server-template .*", f"server engine 127.0.0.1:{backend} {server}", text)
    text = text.replace("bind :8000", f"bind 127.0.0.1:{port}")
    text = text.replace("bind :8001", f"bind unix@{folder}/health.sock")
    config = folder / "haproxy.cfg"
    config.write_text(text)
    child = await asyncio.create_subprocess_exec(HAPROXY, "-db", "-q", "-f", str(config))
    try:
        await _listening(port)
        yield port
    finally:
        child.kill()
        await child.wait()


async def _listening(port: int) -> None:
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.05)
