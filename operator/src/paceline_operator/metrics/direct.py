"""Pods as a source: each one's own `/metrics`, all at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from paceline_operator.metrics.errors import ScrapeError
from paceline_operator.metrics.exposition import parse
from paceline_operator.metrics.source import Answer, Answers, PodAnswers, Target

SCRAPE_INTERVAL_S = 5.0

Fetch = Callable[[str], Awaitable[str]]


class DirectSource:
    """Reads pods themselves.

    Args:
        fetch: Returns the text behind a URL, or raises `ScrapeError`; must time out.
        interval_s: Time between two rounds.
    """

    def __init__(self, fetch: Fetch, interval_s: float = SCRAPE_INTERVAL_S) -> None:
        self._fetch = fetch
        self.interval_s = interval_s

    async def read(self, targets: Sequence[Target], now_s: float) -> Answers:
        """Reads all targets in parallel; one that hangs delays the others by its time-out."""
        found = await asyncio.gather(*(self._one(target, now_s) for target in targets))
        return {target.uid: answer for target, answer in zip(targets, found, strict=True)}

    async def _one(self, target: Target, now_s: float) -> PodAnswers:
        try:
            exposition = parse(await self._fetch(target.url))
        except ScrapeError as error:
            # Whose error it is, is known: so the same cause reads the same of all pods.
            return ScrapeError(str(error).removeprefix(f"{target.url}: "))
        return (Answer(exposition=exposition, read_at_s=now_s),)
