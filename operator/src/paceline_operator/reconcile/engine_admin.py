"""Calls to the admin port of engines: read and set tunables, drain and take back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import aiohttp

from paceline_operator.autopilot.vocabulary.fleet import PodTunables
from paceline_operator.domain.contract import ADMIN_PORT, AdminPath
from paceline_operator.domain.scale_in import DrainState
from paceline_operator.domain.tunables import read_report
from paceline_operator.metrics import read_body

TIMEOUT_S = 2.0
MAX_BYTES = 1 << 20


class EngineError(Exception):
    """An engine did not do what it was asked; the text is one line for people."""


class UnreachableError(EngineError):
    """No answer in time."""


class RefusedError(EngineError):
    """The engine answered with an error.

    Attributes:
        status: HTTP status; 409 means that it knows a newer revision.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class EngineAdmin:
    """Admin calls over a session that the caller owns.

    Args:
        session: Open client session.
        port: Admin port of every engine.
    """

    def __init__(self, session: aiohttp.ClientSession, port: int = ADMIN_PORT) -> None:
        self._session = session
        self._port = port
        self._timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)

    async def tunables(self, ip: str, token: str) -> PodTunables:
        """What an engine reports.

        Raises:
            EngineError: It did not answer, or not in the agreed form.
        """
        return _report(ip, await self._call("GET", ip, AdminPath.TUNABLES, token))

    async def set_tunables(self, ip: str, token: str, body: Mapping[str, Any]) -> PodTunables:
        """Set the live values; the answer says what is in force.

        Raises:
            EngineError: It did not answer, refused, or answered in another form.
        """
        return _report(ip, await self._call("PUT", ip, AdminPath.TUNABLES, token, body))

    async def drain_state(self, ip: str, token: str) -> DrainState:
        """How far a drain is.

        Raises:
            EngineError: It did not answer.
        """
        return _drain(await self._call("GET", ip, AdminPath.DRAIN, token))

    async def drain(self, ip: str, token: str) -> DrainState:
        """Begin a drain; one that is on goes on.

        Raises:
            EngineError: It did not answer, or refused.
        """
        return _drain(await self._call("POST", ip, AdminPath.DRAIN, token))

    async def undo_drain(self, ip: str, token: str) -> None:
        """Take an engine back into service.

        Raises:
            EngineError: It did not answer, or refused.
        """
        await self._call("DELETE", ip, AdminPath.DRAIN, token)

    async def _call(
        self,
        method: str,
        ip: str,
        path: AdminPath,
        token: str,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        host = f"[{ip}]" if ":" in ip else ip
        url = f"http://{host}:{self._port}{path}"
        headers = {"Authorization": f"Bearer {token}"}
        try:
            async with self._session.request(
                method,
                url,
                json=body,
                headers=headers,
                timeout=self._timeout,
                allow_redirects=False,  # an engine is a tenant's: it must not lead us elsewhere
            ) as reply:
                raw = await read_body(reply, MAX_BYTES)
                answer = json.loads(raw) if raw.strip() else None
        except TimeoutError as error:
            raise UnreachableError(f"{method} {url}: no answer in {TIMEOUT_S} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            detail = str(error) or type(error).__name__
            raise UnreachableError(f"{method} {url}: {detail}") from error
        except RecursionError as error:
            raise UnreachableError(f"{method} {url}: an answer nested too deeply") from error
        if reply.status >= 300:
            raise RefusedError(f"{method} {url}: {reply.status} {_text(answer)}", reply.status)
        return answer if isinstance(answer, dict) else {}


def _text(answer: Any) -> str:
    if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
        return str(answer["error"].get("message", ""))
    return str(answer)[:200]


def _report(ip: str, answer: Mapping[str, Any]) -> PodTunables:
    try:
        return read_report(answer)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise RefusedError(f"engine {ip}: tunables not understood: {error!r}", 200) from error


def _drain(answer: Mapping[str, Any]) -> DrainState:
    phase = answer.get("phase")
    return DrainState(
        refusing=phase == "refusing",
        announced=phase == "announced",
        empty=answer.get("empty") is True,
        terminal=answer.get("terminal") is True,
    )
