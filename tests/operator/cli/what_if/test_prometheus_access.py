"""`what-if` and a Prometheus server behind TLS that asks for a token."""

from __future__ import annotations

import json
import random
import re
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from e2e.cluster.pki import Authority, Subject
from paceline_operator.cli.errors import CliError
from paceline_operator.cli.what_if.prometheus_access import read_access
from paceline_operator.metrics.errors import PrometheusError
from paceline_operator.metrics.query_api import QueryApi
from paceline_operator.simulator.request import Request
from tests.operator.cli.test_main import run
from tests.operator.metrics.recorded_fleet import recorded
from tests.support.prometheus_past import prometheus_past

TOKEN = "s3cret-of-a-service-account"
MANIFEST = """
apiVersion: paceline.dev/v1alpha1
kind: InferenceService
metadata: {name: chat}
spec:
  model: {uri: "file:///m.gguf"}
  engine: {device: {type: Simulated, profile: llama-3-8b-a100, loadSeconds: 5}}
  slos: [{name: first-token, metric: TTFT, targetMs: 2000}]
  scaling: {minReplicas: 1, maxReplicas: 1}
"""


class _Guard(BaseHTTPRequestHandler):
    """Lets through who has the token, to the server behind it."""

    server: Gate

    def do_GET(self) -> None:
        self.server.seen.append(self.headers.get("Authorization"))
        if self.server.to is not None and self.path.startswith("/moved"):
            self.send_response(307)
            self.send_header("Location", self.server.to)
            self.end_headers()
            return
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._answer(401, b"Unauthorized\n", "text/plain")
            return
        try:
            with urllib.request.urlopen(f"{self.server.behind}{self.path}", timeout=30) as reply:  # noqa: S310
                self._answer(reply.status, reply.read(), "application/json")
        except urllib.error.HTTPError as error:
            self._answer(error.code, error.read(), "application/json")

    def _answer(self, code: int, body: bytes, kind: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Gate(ThreadingHTTPServer):
    """A TLS front of a Prometheus server.

    Attributes:
        behind: That server's address.
        seen: What each call had as its authorisation.
        to: Where calls of `/moved` are sent.
    """

    daemon_threads = True

    def __init__(self, behind: str, tls: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), _Guard)
        self.behind = behind
        self.seen: list[str | None] = []
        self.to: str | None = None
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.server_address[1]}"
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)

    def handle_error(self, *_: object) -> None:
        """A client that does not trust it hangs up, as it should."""


@dataclass
class Place:
    """Server, and the files of a user."""

    gate: Gate
    directory: Path
    ca: Path

    def file(self, name: str, text: str) -> Path:
        found = self.directory / name
        found.write_text(text)
        return found

    @property
    def token(self) -> Path:
        return self.file("token", TOKEN + "\n")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("access")
    authority = Authority(directory / "pki")
    pair = authority.issue("server", Subject("prometheus", hosts=("IP:127.0.0.1",)))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.certificate, pair.key)
    chance = random.Random(2)
    load = [Request(at_s, chance.randint(200, 600), 40) for at_s in range(0, 600, 4)]
    past = recorded(load, float(int(time.time())) - 660.0, 600.0)
    with prometheus_past(past) as url, Gate(url, tls) as gate:
        thread = threading.Thread(target=gate.serve_forever, daemon=True)
        thread.start()
        yield Place(gate, directory, authority.ca.certificate)
        gate.shutdown()
        thread.join()


def ask(place: Place, *arguments: str, url: str | None = None) -> Any:
    manifest = place.file("chat.yaml", MANIFEST)
    return run(
        None,
        *("what-if", "-f", str(manifest), "--old", "none", "--seeds", "1", "--json"),
        *("--prometheus", url or place.gate.url, "--last", "10m", *arguments),
    )


def test_token_and_authorities_let_it_in(place: Place) -> None:
    place.gate.seen.clear()
    done = ask(
        place,
        *("--prometheus-token-file", str(place.token), "--prometheus-ca-file", str(place.ca)),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["load"]["isReconstructed"]
    assert found["load"]["requests"] == pytest.approx(150, rel=0.4)
    assert set(place.gate.seen) == {f"Bearer {TOKEN}"}
    assert TOKEN not in done.stdout + done.stderr + " ".join(done.args)


@pytest.mark.parametrize(
    ("token", "trusts", "said"),
    [
        (None, True, r"answers 401"),
        ("another", True, r"answers 401"),
        (TOKEN, False, r"cannot be asked: .*certificate verify failed"),
    ],
)
def test_who_may_not_in_is_told_so_in_one_line(
    place: Place, token: str | None, trusts: bool, said: str
) -> None:
    flags = ["--prometheus-ca-file", str(place.ca)] if trusts else []
    if token is not None:
        flags += ["--prometheus-token-file", str(place.file("given", token))]
    place.gate.seen.clear()
    done = ask(place, *flags)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert re.search(said, done.stderr)
    assert TOKEN not in done.stderr
    if not trusts:
        assert place.gate.seen == []


async def test_a_token_does_not_follow_to_another_server(place: Place) -> None:
    with Gate("http://127.0.0.1:9", None) as other:
        thread = threading.Thread(target=other.serve_forever, daemon=True)
        thread.start()
        place.gate.to = f"{other.url}/api/v1/query_range"
        access = read_access(place.gate.url, place.token, place.ca)
        async with aiohttp.ClientSession() as session:
            with pytest.raises(PrometheusError, match="answers 401"):
                await QueryApi(session, f"{place.gate.url}/moved", access).at("up", 1.0)
        other.shutdown()
        thread.join()
    assert other.seen == [None]


def test_a_token_is_not_shown_by_what_holds_it(place: Place) -> None:
    assert TOKEN not in repr(read_access(place.gate.url, place.token, None))


@pytest.mark.parametrize(
    ("url", "token", "authorities", "said"),
    [
        ("https://h:9090", "", None, "has no bearer token: one word on one line is expected"),
        ("https://h:9090", "two words", None, "has no bearer token"),
        ("https://h:9090", "two\nlines", None, "has no bearer token"),
        ("https://h:9090", "schl\u00fcssel", None, "has no bearer token"),
        ("https://u:p@h:9090", "t", None, "the address has a user, --prometheus-token-file has"),
        ("http://[::1", "t", None, "--prometheus: 'http://[::1' is no address: "),
        ("http://h:port", "t", None, "--prometheus: 'http://h:port' is no address: "),
        ("https://h:9090", None, "no pem", "name a PEM file of authorities"),
        ("http://h:9090", None, "no pem", "--prometheus-ca-file is for an https address"),
    ],
)
def test_files_that_cannot_be_used_are_named(
    url: str, token: str | None, authorities: str | None, said: str, tmp_path: Path
) -> None:
    files = []
    for name, text in (("token", token), ("ca.pem", authorities)):
        file = tmp_path / name
        if text is not None:
            file.write_text(text)
        files.append(None if text is None else file)
    with pytest.raises(CliError) as told:
        read_access(url, *files)
    assert said in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("flag", ["--prometheus-token-file", "--prometheus-ca-file"])
def test_files_that_are_missing_are_named(place: Place, flag: str, tmp_path: Path) -> None:
    done = ask(place, flag, str(tmp_path / "none"))
    assert done.stderr.startswith(f"error: {flag}: {tmp_path / 'none'}: No such file or directory")
    assert done.stderr.count("\n") == 1


def test_they_are_for_prometheus_alone(place: Place) -> None:
    manifest = place.file("chat.yaml", MANIFEST)
    flags = ("--trace", "load.csv", "--prometheus-token-file", str(place.token))
    done = run(None, "what-if", "-f", str(manifest), *flags)
    assert done.stderr == (
        "error: --prometheus-token-file is for --prometheus: a trace is played whole\n"
    )
