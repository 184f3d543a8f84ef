"""Pieces of several outputs in one stream, in the order in which they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from paceline_engine.server.piece import Piece

Indexed = tuple[int, Piece]


class Merge:
    """Follows outputs, each in a task of its own, until told to stop."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Indexed | Exception] = asyncio.Queue()
        self._pumps: list[asyncio.Task[None]] = []

    def follow(self, pieces: AsyncIterator[Piece]) -> None:
        """Adds the next output."""
        self._pumps.append(asyncio.create_task(self._pump(len(self._pumps), pieces)))

    def fail(self, error: Exception) -> None:
        """Ends the stream with an error."""
        self._queue.put_nowait(error)

    def stop(self, outputs: slice) -> None:
        """Follows some outputs no longer."""
        for each in self._pumps[outputs]:
            each.cancel()

    async def pieces(self, outputs: int) -> AsyncIterator[Indexed]:
        """Pieces with their output's index, until so many outputs have ended.

        Raises:
            Exception: What an output raised.
        """
        while outputs:
            item = await self._queue.get()
            if isinstance(item, Exception):
                raise item
            outputs -= item[1].finish_reason is not None
            yield item

    async def _pump(self, index: int, pieces: AsyncIterator[Piece]) -> None:
        try:
            async for piece in pieces:
                self._queue.put_nowait((index, piece))
        except Exception as error:  # noqa: BLE001 handed to the consumer, which raises it
            self.fail(error)
