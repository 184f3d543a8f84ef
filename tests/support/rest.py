"""The API server's REST interface for tests: one call, one answer, no client library."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from e2e.cluster.pki import Subject
from tests.support.apiserver import ApiServer

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class Reply:
    """Status code and decoded body."""

    status: int
    body: dict[str, Any]

    @property
    def message(self) -> str:
        """What the server says about a failure."""
        return str(self.body.get("message", ""))


@dataclass(frozen=True, slots=True)
class Rest:
    """Calls as one user."""

    url: str
    trust: ssl.SSLContext

    @classmethod
    def to(cls, server: ApiServer, user: str = "admin", group: str = "system:masters") -> Rest:
        """Client of a running server, by default as administrator.

        A service account is `system:serviceaccount:<namespace>:<name>`.
        """
        file = "".join(c if c.isalnum() else "-" for c in user)
        pair = server.authority.issue(file, Subject(user, group))
        trust = ssl.create_default_context(cafile=str(server.authority.ca.certificate))
        trust.load_cert_chain(pair.certificate, pair.key)
        return cls(server.url, trust)

    def call(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> Reply:
        """Send one request; an HTTP error is a reply like any other."""
        data = None if body is None else json.dumps(body).encode()
        return self.send(method, path, data, content_type)

    def send(
        self, method: str, path: str, data: bytes | None, content_type: str = "application/json"
    ) -> Reply:
        """Send bytes as they are; a reply too deep to be decoded comes with an empty body."""
        request = urllib.request.Request(  # noqa: S310 - loopback
            f"{self.url}{path}",
            method=method,
            data=data,
            headers={"Content-Type": content_type},
        )
        try:
            with urllib.request.urlopen(request, context=self.trust, timeout=120) as reply:  # noqa: S310
                return Reply(reply.status, _decoded(reply.read()))
        except urllib.error.HTTPError as error:
            with error:
                return Reply(error.code, _decoded(error.read()))


def _decoded(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except RecursionError:
        return {}
    except json.JSONDecodeError:
        return {"message": content.decode(errors="replace")}
    return found if isinstance(found, dict) else {"message": str(found)}
