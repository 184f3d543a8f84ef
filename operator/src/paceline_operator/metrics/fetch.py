"""One HTTP GET of a pod's metrics."""

from __future__ import annotations

import os

import aiohttp

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
            async with self._session.get(url, timeout=self._timeout) as reply:
                if reply.status != 200:
                    raise ScrapeError(f"{url}: answered {reply.status}")
                body = await reply.content.read(MAX_BYTES + 1)
                while len(body) <= MAX_BYTES and (more := await reply.content.read(MAX_BYTES)):
                    body += more
                return _text(url, body)
        except TimeoutError as error:
            raise ScrapeError(f"{url}: no answer in {self._timeout.total} s") from error
        except aiohttp.ClientConnectorError as error:
            # Its own text names the address once more.
            raise ScrapeError(f"{url}: {_reason(error.os_error)}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise ScrapeError(f"{url}: {error or type(error).__name__}") from error


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error) or type(error).__name__


def _text(url: str, body: bytes) -> str:
    if len(body) > MAX_BYTES:
        raise ScrapeError(f"{url}: answer above {MAX_BYTES} bytes")
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise ScrapeError(f"{url}: answer is not UTF-8") from error
