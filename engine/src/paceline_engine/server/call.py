"""One HTTP call to a generating route: its prompts, admitted together, run side by side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Self

from paceline_engine.server.answer_wire import Usage
from paceline_engine.server.gate import Gate
from paceline_engine.server.generation import Generation, Piece
from paceline_engine.server.request_record import Identity
from paceline_engine.server.sampling_fields import SamplingFields
from paceline_engine.server.service import Service
from paceline_engine.server.ticket import Ask, Ticket

Indexed = tuple[int, Piece]


class Call:
    """Checked prompts of one call; used as a context manager around their run.

    Args:
        service: Engine and meters.
        body: The checked body.
        prompts: Token ids; each fits.
        received_at: Monotonic time of the call's first byte.
        request_id: As echoed to the caller.
    """

    def __init__(
        self,
        service: Service,
        body: SamplingFields,
        prompts: Sequence[tuple[int, ...]],
        received_at: float,
        request_id: str = "",
    ) -> None:
        self._service = service
        self._body = body
        self._prompts = prompts
        self._received_at = received_at
        self._request_id = request_id
        self._generations: list[Generation] = []
        self._handed_at = 0.0

    @property
    def usage(self) -> Usage:
        """Tokens so far, over all prompts."""
        prompt = sum(each.prompt_tokens for each in self._generations)
        output = sum(each.output_tokens for each in self._generations)
        return Usage(prompt_tokens=prompt, completion_tokens=output, total_tokens=prompt + output)

    def __enter__(self) -> Self:
        """Admits all prompts, or none.

        Raises:
            OverloadedError: Too much waits.
            UnavailableError: Loading, draining or dead.
        """
        asks = [self._ask(prompt) for prompt in self._prompts]
        tickets = Gate(self._service).enter(asks, self._body.tier)
        self._generations = [
            self._generation(index, prompt, ticket)
            for index, (prompt, ticket) in enumerate(zip(self._prompts, tickets, strict=True))
        ]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for generation in self._generations:
            generation.close()

    def cancel(self) -> None:
        """The client has left."""
        for generation in self._generations:
            generation.cancel()

    @property
    def write_deadline_s(self) -> float:
        """How long the client may leave what is written unread."""
        return self._service.settings.write_deadline_seconds

    def handed(self, index: int, piece: Piece) -> None:
        """A piece is about to be handed to the connection."""
        self._handed_at = self._service.clock()
        self._generations[index].handed(piece)

    def written(self, index: int, piece: Piece) -> None:
        """A piece has been passed on; while that took, all prompts waited for the client."""
        blocked_s = self._service.clock() - self._handed_at
        for generation in self._generations:
            generation.blocked(blocked_s)
        self._generations[index].written(piece)

    async def pieces(self) -> AsyncIterator[Indexed]:
        """Pieces of all prompts as they come, each with its prompt's index.

        Raises:
            AbandonedError: `cancel` was called.
            ApiError: The engine failed.
        """
        if len(self._generations) == 1:
            async for piece in self._generations[0].pieces():
                yield 0, piece
            return
        async for indexed in _merge(self._generations):
            yield indexed

    def _most_output(self, prompt: tuple[int, ...]) -> int:
        room = self._service.config.max_request_tokens - len(prompt)
        wanted = self._body.output_limit
        return room if wanted is None else min(wanted, room)

    def _ask(self, prompt: tuple[int, ...]) -> Ask:
        is_limited = self._body.output_limit is not None
        return Ask(len(prompt), self._most_output(prompt), is_limited=is_limited)

    def _generation(self, index: int, prompt: tuple[int, ...], ticket: Ticket) -> Generation:
        sampling = self._body.params(
            max_tokens=self._most_output(prompt), drawn_seed=self._service.draw_seed()
        )
        identity = Identity(request_id=self._request_id, index=index, tier=ticket.tier)
        return Generation(
            self._service, ticket, identity, prompt, sampling, self._body.stop, self._received_at
        )


async def _merge(generations: Sequence[Generation]) -> AsyncIterator[Indexed]:
    queue: asyncio.Queue[Indexed | Exception] = asyncio.Queue()

    async def pump(index: int, generation: Generation) -> None:
        try:
            async for piece in generation.pieces():
                queue.put_nowait((index, piece))
        except Exception as error:  # noqa: BLE001 handed to the consumer, which raises it
            queue.put_nowait(error)

    pumps = [asyncio.create_task(pump(*each)) for each in enumerate(generations)]
    running = len(pumps)
    try:
        while running:
            item = await queue.get()
            if isinstance(item, Exception):
                raise item
            running -= item[1].finish_reason is not None
            yield item
    finally:
        for each in pumps:
            each.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
