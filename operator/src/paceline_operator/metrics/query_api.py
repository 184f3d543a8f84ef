"""Questions about the past to a Prometheus server (`/api/v1/query_range`), or to its like."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field

import aiohttp
from yarl import URL

from paceline_operator.metrics.errors import PrometheusError, ScrapeError
from paceline_operator.metrics.series import Series, read_matrix

PATH = "api/v1/query_range"
TIMEOUT_S = 120.0
_SHOWN_CHARACTERS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How to be let in, and whom to trust.

    Attributes:
        token: Bearer token, None without.
        trust: With `https`; None for the system's authorities.
    """

    token: str | None = field(default=None, repr=False)
    trust: ssl.SSLContext | None = None


_OPEN = Access()


class QueryApi:
    """A server.

    Args:
        session: Open client session; the caller's.
        url: Its address, with whatever path it is served under.
        access: How to be let in.
        timeout_s: For one question.

    Raises:
        PrometheusError: The address is none.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        access: Access = _OPEN,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._session = session
        self._url = _checked(url)
        self._trust = access.trust
        self._headers = {} if access.token is None else {"Authorization": f"Bearer {access.token}"}
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)

    async def over(
        self, query: str, *, start_s: float, end_s: float, step_s: float
    ) -> list[Series]:
        """Values of a query at `start_s` (since the epoch), and each `step_s` up to `end_s`.

        Raises:
            PrometheusError: No usable answer.
        """
        given = {"query": query, "start": f"{start_s:.3f}", "end": f"{end_s:.3f}",
                 "step": f"{step_s:.3f}"}  # fmt: skip
        status, body = await self._ask(given)
        try:
            return read_matrix(body)
        except ScrapeError as error:
            said = " ".join(str(error).split())[:_SHOWN_CHARACTERS]
            raise PrometheusError(f"{self._where} answers {status}: {said}") from error

    async def at(self, query: str, time_s: float) -> list[Series]:
        """Values of a query at a moment.

        Raises:
            PrometheusError: No usable answer.
        """
        return await self.over(query, start_s=time_s, end_s=time_s, step_s=1.0)

    @property
    def _where(self) -> str:
        return f"Prometheus at {self._url.with_user(None)}"

    async def _ask(self, given: dict[str, str]) -> tuple[int, bytes]:
        """Status and body: a refusal says why in the same form as an answer."""
        try:
            async with self._session.get(
                self._url / PATH,
                params=given,
                headers=self._headers,
                timeout=self._timeout,
                ssl=self._trust or True,
            ) as reply:
                return reply.status, await reply.read()
        except TimeoutError as error:
            raise PrometheusError(
                f"{self._where}: no answer in {self._timeout.total:.0f} s; ask for less time"
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            said = str(error) or type(error).__name__
            raise PrometheusError(f"{self._where} cannot be asked: {said}") from error


def _checked(text: str) -> URL:
    try:
        url = URL(text)
    except ValueError as error:
        raise PrometheusError(f"{text!r} is no address: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise PrometheusError(f"{text!r} is no address: it must read http://HOST:PORT")
    return url
