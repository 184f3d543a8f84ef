"""Places for work that only some calls may do at a time; whoever leaves gives its place back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect, Request


class Turn:
    """A call's place.

    Args:
        left: Done once the client has left.
    """

    def __init__(self, left: asyncio.Task[None]) -> None:
        self._left = left

    def check(self) -> None:
        """Whether anybody still waits for the answer.

        Raises:
            ClientDisconnect: The client has left.
        """
        if self._left.done():
            raise ClientDisconnect


class Turns:
    """Places that are taken in the order in which calls came.

    Args:
        places: How many there are.
    """

    def __init__(self, places: int) -> None:
        self._free = asyncio.Semaphore(places)

    @asynccontextmanager
    async def take(self, request: Request) -> AsyncIterator[Turn]:
        """Waits for a place and holds it; the call's body must have been read.

        Raises:
            ClientDisconnect: The client left while it waited.
        """
        left = asyncio.create_task(_left(request))
        mine = asyncio.create_task(self._free.acquire())
        try:
            await asyncio.wait((mine, left), return_when=asyncio.FIRST_COMPLETED)
            turn = Turn(left)
            turn.check()
            yield turn
        finally:
            left.cancel()
            mine.cancel()
            _, got = await asyncio.gather(left, mine, return_exceptions=True)
            if got is True:
                self._free.release()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
