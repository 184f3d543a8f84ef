"""An API server of one object that asks for a bearer token."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: a
contexts: [{{name: a, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "{url}"}}}}]
users: [{{name: u, user: {{token: "{token}"}}}}]
"""


class Api(ThreadingHTTPServer):
    """Gives the same answer to each read.

    Attributes:
        answer: Status and body, to who has the token.
        token: The one that counts.
        asked: Tokens of the reads so far.
    """

    daemon_threads = True

    def __init__(self, token: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: tuple[int, dict[str, Any]] = (200, {})
        self.token = token
        self.asked: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def login(self, file: Path, token: str) -> None:
        """Writes a kubeconfig for it."""
        file.write_text(KUBECONFIG.format(url=self.url, token=token))


class _Handler(BaseHTTPRequestHandler):
    server: Api

    def do_GET(self) -> None:
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        self.server.asked.append(token)
        status, body = self.server.answer
        if token != self.server.token:
            status, body = 401, {"kind": "Status", "message": "Unauthorized"}
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def api_server(token: str) -> Iterator[Api]:
    """Starts one."""
    with Api(token) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
