"""A Prometheus server as a source: one query for all pods of a fleet.

The query is an instant one with a range selector, which answers with samples as they were
scraped and with their times; other queries would tell the time of asking. Whatever has the same
interface will do (Thanos, Mimir, VictoriaMetrics).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

import aiohttp

from paceline_operator.metrics.body import read_body
from paceline_operator.metrics.errors import ScrapeError
from paceline_operator.metrics.exposition import WANTED
from paceline_operator.metrics.scraper import STALE_AFTER_INTERVALS
from paceline_operator.metrics.series import Series, answers, by_pod, read_matrix
from paceline_operator.metrics.source import Answers, PodAnswers, Target

PATH = "/api/v1/query"
MAX_BYTES = 64 * 1024 * 1024
MOST_QUERIES = 16
"""Asked at once; waiting for a turn counts as waiting for the answer."""
LAG_INTERVALS = 2
"""Scrapes that may be on their way to the server: it is asked for that much more of the past."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusServer:
    """Where the server is, and how it names things.

    Attributes:
        url: Its address, with a path where it has one.
        interval_s: Time between its scrapes of one engine.
        timeout_s: Limit for an answer.
        token_file: File with a bearer token, read anew for each query; None without.
        trust: Whom to trust with `https`; None for the system's authorities.
        namespace_label: Label with a pod's namespace.
        pod_label: Label with a pod's name.
        matchers: Further labels, with the value that engines' series of this cluster have.
    """

    url: str
    interval_s: float = 15.0
    timeout_s: float = 5.0
    token_file: Path | None = None
    trust: ssl.SSLContext | None = None
    namespace_label: str = "namespace"
    pod_label: str = "pod"
    matchers: Mapping[str, str] = field(default_factory=dict)

    def window_s(self, every_s: float) -> int:
        """How far back samples are asked for: to what growth may be taken from, and lags.

        Args:
            every_s: Time between two rounds of asking, which an overloaded process stretches:
                growth is taken from what was read last, however often the server scrapes.
        """
        growth_s = STALE_AFTER_INTERVALS * max(self.interval_s, every_s)
        return max(1, ceil(growth_s + LAG_INTERVALS * self.interval_s))

    def query(self, targets: Sequence[Target], every_s: float) -> str:
        """PromQL for the samples of some pods of one namespace, asked for every `every_s`."""
        pods = "|".join(sorted(target.name.replace(".", r"\.") for target in targets))
        matchers = [
            f'__name__=~"{"|".join(sorted(WANTED))}"',
            f"{self.namespace_label}={_quoted(targets[0].namespace)}",
            f"{self.pod_label}=~{_quoted(pods)}",
            *(f"{name}={_quoted(value)}" for name, value in self.matchers.items()),
        ]
        return f"{{{','.join(matchers)}}}[{self.window_s(every_s)}s]"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'"{escaped}"'


class PrometheusSource:
    """Reads pods as a Prometheus server has scraped them.

    Args:
        session: Open client session, owned by the caller.
        server: Where to ask.
    """

    def __init__(self, session: aiohttp.ClientSession, server: PrometheusServer) -> None:
        self._session = session
        self._server = server
        self._url = server.url.rstrip("/") + PATH
        self._timeout = aiohttp.ClientTimeout(total=server.timeout_s)
        self._turns = asyncio.Semaphore(MOST_QUERIES)
        # Asking more often than it scrapes would tell nothing new.
        self.interval_s = server.interval_s

    async def read(self, targets: Sequence[Target], now_s: float) -> Answers:
        """Reads all targets with one query; without an answer, all of them fail alike."""
        try:
            query = self._server.query(targets, self.interval_s)
            series = read_matrix(await self._ask(query, now_s))
        except ScrapeError as error:
            failed = ScrapeError(f"{self._url}: {error}")
            return {target.uid: failed for target in targets}
        pods = by_pod(series, self._server.pod_label)
        return {
            target.uid: self._answers(target, pods.get(target.name, ()), now_s)
            for target in targets
        }

    def _answers(self, target: Target, series: Sequence[Series], now_s: float) -> PodAnswers:
        stale_after_s = STALE_AFTER_INTERVALS * self._server.interval_s
        try:
            found = answers(series) if series else ()
        except ScrapeError as error:
            return ScrapeError(f"{self._url}: pod {target.name}: {error}")
        recent = tuple(each for each in found if each.read_at_s >= now_s - stale_after_s)
        return recent or ScrapeError(
            f"{self._url}: no sample of pod {target.name} in the last {stale_after_s:g} s"
        )

    async def _ask(self, query: str, now_s: float) -> bytes:
        """Body of the answer, whatever its status: a refusal says why in the same form."""
        timeout = f"{self._server.timeout_s:.3f}"
        form = {"query": query, "time": f"{now_s:.3f}", "timeout": timeout}
        try:
            async with (
                asyncio.timeout(self._server.timeout_s),
                self._turns,
                self._session.post(
                    self._url,
                    data=form,
                    headers=self._headers(),
                    timeout=self._timeout,
                    ssl=self._server.trust or True,
                ) as reply,
            ):
                body = await read_body(reply, MAX_BYTES)
                if reply.status >= 400 and reply.content_type != "application/json":
                    raise ScrapeError(f"answered {reply.status}")
        except TimeoutError as error:
            raise ScrapeError(f"no answer in {self._server.timeout_s} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ScrapeError(str(error) or type(error).__name__) from error
        return body

    def _headers(self) -> dict[str, str]:
        file = self._server.token_file
        if file is None:
            return {}
        return {"Authorization": f"Bearer {file.read_text(encoding='utf-8').strip()}"}
