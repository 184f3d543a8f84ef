"""One HTTP GET of a pod's metrics."""

from __future__ import annotations

import os

import aiohttp

from paceline_operator.metrics.body import BodyTooLongError, read_body
from paceline_operator.metrics.errors import ScrapeError

TIMEOUT_S = 2.0
MAX_BYTES = 4 * 1024 * 1024


class HttpFetch:
    """Reads a URL as text, over a session that the caller owns.

    Args:
        session: Open client session.
        timeout_s: Limit for connecting, waiting and reading together.
    """

    def __init__(self, session: aiohttp.ClientSession, timeout_s: float = TIMEOUT_S) -> None:
        self._session = session
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)

    async def __call__(self, url: str) -> str:
        """Body of the answer.

        Raises:
            ScrapeError: No answer in time, not 200, too long, or not UTF-8.
        """
        try:
            # A pod is a tenant's: it must not lead us elsewhere.
            async with self._session.get(
                url, timeout=self._timeout, allow_redirects=False
            ) as reply:
                if reply.status != 200:
                    raise ScrapeError(f"{url}: answered {reply.status}")
                return _text(url, await read_body(reply, MAX_BYTES))
        except TimeoutError as error:
            raise ScrapeError(f"{url}: no answer in {self._timeout.total} s") from error
        except aiohttp.ClientConnectorError as error:
            # Its own text names the address once more.
            raise ScrapeError(f"{url}: {_reason(error.os_error)}") from error
        except (aiohttp.ClientError, OSError, BodyTooLongError) as error:
            raise ScrapeError(f"{url}: {error or type(error).__name__}") from error


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error) or type(error).__name__


def _text(url: str, body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise ScrapeError(f"{url}: answer is not UTF-8") from error
