"""HTTP calls in progress on the API port, counted for the drain."""

from __future__ import annotations

import asyncio


class Calls:
    """Counts calls from their headers to the last byte of their answers.

    Attributes:
        running: Calls in progress.
    """

    def __init__(self) -> None:
        self.running = 0
        self._empty = asyncio.Event()
        self._empty.set()

    def enter(self) -> None:
        """A call began."""
        self.running += 1
        self._empty.clear()

    def leave(self) -> None:
        """A call ended."""
        self.running -= 1
        if not self.running:
            self._empty.set()

    async def wait_empty(self) -> None:
        """Returns once no call is in progress."""
        await self._empty.wait()
