"""What diverted connections meet: a server that never answers, and one that does not do as told."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from typing_extensions import override

from paceline_operator.domain.contract import ADMIN_PORT, AdminPath

PATIENCE_S = 5.0


class Mute:
    """Accepts every connection and never says a word.

    Attributes:
        port: Where it listens.
        accepted: Connections so far.
    """

    def __init__(self, host: str) -> None:
        self._listener = socket.create_server((host, 0))
        self._open: list[socket.socket] = []
        self.port = int(self._listener.getsockname()[1])
        self.accepted = 0
        self._thread = threading.Thread(target=self._accept, name="mute", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops listening and drops all."""
        # A thread that waits in accept is woken by shutdown alone.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(PATIENCE_S)
        for each in self._open:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            self.accepted += 1


@contextmanager
def mute(host: str) -> Iterator[Mute]:
    """Such a server, until the block ends."""
    server = Mute(host)
    try:
        yield server
    finally:
        server.close()


class Pretender(ThreadingHTTPServer):
    """The admin port of an engine that accepts live values and keeps its own.

    A PUT is answered with 200 and what the engine runs with; all else goes to the engine itself.

    Attributes:
        pod_ip: The engine.
        ignored: Revisions that were accepted and not applied.
    """

    daemon_threads = True

    def __init__(self, host: str, pod_ip: str) -> None:
        self.pod_ip = pod_ip
        self.ignored: list[int] = []
        super().__init__((host, 0), _Handler)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])


class _Handler(BaseHTTPRequestHandler):
    server: Pretender

    def do_GET(self) -> None:
        self._pass_on("GET")

    def do_POST(self) -> None:
        self._pass_on("POST")

    def do_DELETE(self) -> None:
        self._pass_on("DELETE")

    def do_PUT(self) -> None:
        self.server.ignored.append(int(json.loads(self._body())["revision"]))
        self._answer(*self._ask("GET", AdminPath.TUNABLES.value))

    def _pass_on(self, method: str) -> None:
        self._body()
        self._answer(*self._ask(method, self.path))

    def _ask(self, method: str, path: str) -> tuple[int, bytes]:
        headers = {"Authorization": self.headers.get("Authorization", "")}
        line = http.client.HTTPConnection(self.server.pod_ip, ADMIN_PORT, timeout=PATIENCE_S)
        try:
            line.request(method, path, headers=headers)
            reply = line.getresponse()
            return reply.status, reply.read()
        except (OSError, http.client.HTTPException) as error:
            return 502, json.dumps({"error": {"message": str(error)}}).encode()
        finally:
            line.close()

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _answer(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, *_: object) -> None:
        """Says nothing: the run's own output is for people."""


@contextmanager
def pretender(host: str, pod_ip: str) -> Iterator[Pretender]:
    """Such a port, until the block ends."""
    server = Pretender(host, pod_ip)
    thread = threading.Thread(target=server.serve_forever, name="pretender", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE_S)
