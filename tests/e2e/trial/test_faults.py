"""Parts of the faults that need no cluster: what impostors say, what rules and readings are."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from e2e.cluster.settings import NODE_IP
from e2e.trial import faults, impostor
from e2e.trial.diversion import Diversion
from e2e.trial.foreign import autoscaler
from paceline_operator.domain.contract import AdminPath
from paceline_operator.domain.ownership import autoscaler_of
from paceline_operator.domain.tunables import read_report
from paceline_operator.metrics import names

HERE = "127.0.0.1"
REPORT: dict[str, Any] = {
    "revision": 3,
    "requested": {"maxNumBatchedTokens": 128, "maxNumRunningSeqs": 16},
    "effective": {"maxNumBatchedTokens": 128, "maxNumRunningSeqs": 16},
    "floor": {"maxNumBatchedTokens": 32, "maxNumRunningSeqs": 1},
    "ceiling": {"maxNumBatchedTokens": 1024, "maxNumRunningSeqs": 16},
    "step": {"maxNumBatchedTokens": 16, "maxNumRunningSeqs": 1},
    "slos": [],
}


class _Engine(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps(REPORT).encode()
        known = self.headers["Authorization"] == "Bearer t"
        self.send_response(200 if known and self.path == AdminPath.TUNABLES else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An engine's admin port on loopback."""
    with ThreadingHTTPServer((HERE, 0), _Engine) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setattr(impostor, "ADMIN_PORT", server.server_address[1])
        yield
        server.shutdown()
        thread.join()


def _call(port: int, method: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
    line = http.client.HTTPConnection(HERE, port, timeout=5)
    headers = {"Authorization": "Bearer t"}
    line.request(method, AdminPath.TUNABLES, json.dumps(body) if body else None, headers)
    reply = line.getresponse()
    found = reply.status, json.loads(reply.read())
    line.close()
    return found


@pytest.mark.usefixtures("engine")
def test_a_pretender_accepts_and_the_engine_goes_on_as_before() -> None:
    with impostor.pretender(HERE, HERE) as server:
        wanted = {"revision": 9, "maxNumBatchedTokens": 512, "maxNumRunningSeqs": 8, "slos": []}
        code, answer = _call(server.port, "PUT", wanted)
        assert (code, answer, server.ignored) == (200, REPORT, [9])
        report = read_report(answer)
        assert (report.revision, report.effective, report.running_seqs) == (3, 128, 16)
        assert _call(server.port, "GET") == (200, REPORT)


def test_a_pretender_whose_engine_is_gone_says_so() -> None:
    with socket.create_server((HERE, 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.MonkeyPatch.context() as patch, impostor.pretender(HERE, HERE) as server:
        patch.setattr(impostor, "ADMIN_PORT", port)
        code, _ = _call(server.port, "GET")
        assert (code, server.ignored) == (502, [])


def test_a_mute_server_accepts_and_never_answers() -> None:
    with impostor.mute(HERE) as server:
        with socket.create_connection((HERE, server.port), timeout=5) as line:
            line.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            line.settimeout(0.3)
            with pytest.raises(TimeoutError):
                line.recv(1)
        assert server.accepted == 1
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HERE, server.port), timeout=5)


def test_rules_are_taken_back_by_the_words_they_were_made_with() -> None:
    diversion = Diversion("198.18.0.7", 8001, 40000)
    for added, removed in zip(diversion.rules("-A"), diversion.rules("-D"), strict=True):
        assert [word for word in added if word != "-A"] == [w for w in removed if w != "-D"]
        assert {"OUTPUT", "198.18.0.7", "8001"} < set(added)
    assert f"{NODE_IP}:40000" in diversion.rules("-A")[0]
    of_all = Diversion(None, 8001, 40000).rules("-A")
    assert ["-d" in rule for rule in of_all] == [False, False]
    assert all({"OUTPUT", "--dport", "8001"} < set(rule) for rule in of_all)


@pytest.mark.parametrize(("value", "revision"), [("7.0", 7), ("1.2e+01", 12)])
def test_the_revision_in_force_is_what_the_engine_counts(value: str, revision: int) -> None:
    name = names.TUNABLES_REVISION.full_name
    page = f'# HELP {name} Revision.\n{name}{{model_name="m"}} {value}\n'
    assert faults.revision_of(page) == revision
    assert faults.revision_of("") is None


def test_a_moved_target_is_another_one() -> None:
    slos = [{"name": "a", "targetMs": 100}, {"name": "b", "targetMs": 200}]
    assert faults.moved(slos) == [{"name": "a", "targetMs": 101}, {"name": "b", "targetMs": 200}]


def test_the_autoscaler_is_one_that_the_operator_knows() -> None:
    assert autoscaler_of([autoscaler("foreign")], "foreign") == "HorizontalPodAutoscaler foreign"
