"""A real etcd: it answers to the API server's certificate and to nobody else on the machine."""

import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.cluster import binaries, store
from e2e.cluster.pki import Authority, Pair, Subject
from e2e.cluster.settings import from_environment
from tests.support.apiserver import free_ports


@dataclass(frozen=True)
class Running:
    """An etcd, its ports, and where its certificates lie."""

    port: int
    peer_port: int
    keys: store.Keys

    def ask(self, pair: Pair | None, port: int | None = None, path: str = "/health") -> int:
        """Status of an answer; a refusal of the connection raises."""
        trust = ssl.create_default_context(cafile=self.keys.authority)
        if pair:
            trust.load_cert_chain(pair.certificate, pair.key)
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust)
        )
        with opener.open(f"{store.url(port or self.port)}{path}", timeout=5) as reply:
            return int(reply.status)


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    place = tmp_path_factory.mktemp("etcd")
    keys = store.Keys(place / "pki")
    keys.make()
    port, peer_port = free_ports(2)
    program = str(binaries.require(from_environment().cache, "kubebox"))
    flags = store.etcd_flags(place / "data", port, peer_port, keys)
    running = Running(port, peer_port, keys)
    with (place / "log").open("wb") as log:
        child = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", program, "etcd", *flags], stdout=log, stderr=log
        )
    try:
        wait_until_it_answers(running, child, place / "log")
        yield running
    finally:
        child.kill()
        child.wait()


def wait_until_it_answers(etcd: Running, child: subprocess.Popen[bytes], log: Path) -> None:
    limit = time.monotonic() + 40
    while True:
        try:
            etcd.ask(etcd.keys.client)
            return
        except OSError:
            assert child.poll() is None, log.read_text()
            assert time.monotonic() < limit, log.read_text()
            time.sleep(0.05)


@pytest.mark.parametrize("path", ["/health", "/version", "/metrics"])
def test_the_api_server_is_answered(etcd: Running, path: str) -> None:
    assert etcd.ask(etcd.keys.client, path=path) == 200


def test_nobody_else_is(etcd: Running, tmp_path: Path) -> None:
    # Kubernetes hands out certificates of another authority: they open nothing here either.
    stranger = Authority(tmp_path / "pki").issue("x", Subject("admin", "system:masters"))
    for pair in (None, stranger):
        for port in (etcd.port, etcd.peer_port):
            with pytest.raises(OSError):  # noqa: PT011 - TLS alerts come as several of its kinds
                etcd.ask(pair, port, "/version")


def test_plain_http_is_not_served(etcd: Running) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with pytest.raises((urllib.error.URLError, OSError)):
        opener.open(f"http://127.0.0.1:{etcd.port}/health", timeout=5)


def test_keys_are_readable_by_their_owner_alone(etcd: Running) -> None:
    assert etcd.keys.directory.stat().st_mode & 0o077 == 0
    assert etcd.keys.client.key.stat().st_mode & 0o077 == 0
