"""One prompt on its way through the engine: token ids in, measured pieces of text out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from paceline_engine.client import EngineDeadError
from paceline_engine.message import TokenOutput
from paceline_engine.request import FinishReason, Request
from paceline_engine.sampling import SamplingParams
from paceline_engine.server.errors import InternalError, UnavailableError
from paceline_engine.server.request_record import Identity
from paceline_engine.server.service import Service
from paceline_engine.server.stop_strings import StopFilter
from paceline_engine.server.ticket import Ticket


class AbandonedError(Exception):
    """The client has left; there is nobody to answer."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that may be shown; the last one of an output has a finish reason."""

    text: str
    finish_reason: str | None = None


class Generation:
    """Runs one admitted prompt.

    The consumer iterates `pieces`, calls `handed` before it passes one on and `written`
    after, and `close` in any case. An end that is neither whole nor the client's leaving
    counts as an error.

    Args:
        service: Engine, tokenizer, meters.
        ticket: Its admission; ended with it.
        identity: Whose it is, and its tier.
        prompt: Token ids that fit.
        sampling: How to draw.
        stops: Stop strings.
        received_at: Monotonic time of the request's first byte.
    """

    def __init__(
        self,
        service: Service,
        ticket: Ticket,
        identity: Identity,
        prompt: tuple[int, ...],
        sampling: SamplingParams,
        stops: tuple[str, ...],
        received_at: float,
    ) -> None:
        self._client = service.client
        self._ticket = ticket
        self._request = Request(
            request_id=next(service.request_ids),
            prompt_token_ids=prompt,
            sampling=sampling,
            tier=identity.tier,
        )
        self._decoder = service.tokenizer.incremental_decoder()
        self._stops = StopFilter(stops)
        self._meter = service.metering.admit(
            received_at, len(prompt), identity, shares_prompt=ticket.shares_prompt
        )
        self._is_open = True
        self._has_left = False

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt."""
        return len(self._request.prompt_token_ids)

    @property
    def output_tokens(self) -> int:
        """Tokens of the answer so far."""
        return self._meter.output_tokens

    async def pieces(self) -> AsyncIterator[Piece]:
        """Runs the prompt; ends after the piece with a finish reason.

        Raises:
            AbandonedError: `cancel` was called.
            InternalError: The engine failed on this request.
            UnavailableError: The engine is dead.
        """
        if self._has_left:
            raise AbandonedError
        try:
            async for output in self._client.submit(self._request):
                piece = self._take(output)
                if piece.text or piece.finish_reason:
                    yield piece
                if piece.finish_reason:
                    return
        except EngineDeadError as error:
            raise UnavailableError(f"the engine is gone: {error}") from error

    def handed(self, piece: Piece) -> None:
        """The piece is about to be handed to the connection."""
        if piece.text:
            self._meter.emitted()

    def blocked(self, seconds: float) -> None:
        """The client was that slow to read."""
        self._meter.blocked(seconds)

    def written(self, piece: Piece) -> None:
        """The piece has been passed on."""
        if piece.finish_reason:
            self._is_open = False
            self._meter.complete(piece.finish_reason)
            self._ticket.end(self.output_tokens)

    def cancel(self) -> None:
        """The client has left: `pieces` ends with an `AbandonedError`."""
        self._has_left = True
        self._withdraw()

    def close(self) -> None:
        """Frees what an unfinished prompt holds; safe to call at any time, twice too."""
        self._ticket.end()
        if self._is_open:
            self._is_open = False
            self._withdraw()
            self._meter.abandon("abort" if self._has_left else "error")

    def _withdraw(self) -> None:
        self._client.abort(self._request.request_id)

    def _take(self, output: TokenOutput) -> Piece:
        if output.queue_s is not None:
            self._meter.queued(output.queue_s)
        if output.cached_tokens is not None:
            self._meter.cached(output.cached_tokens)
        self._ticket.start()
        text = self._show(output.token_ids)
        if self._stops.matched:
            self._withdraw()
            return Piece(text, FinishReason.STOP.value)
        match output.finish_reason:
            case None:
                return Piece(text)
            case FinishReason.STOP | FinishReason.LENGTH as reason:
                return self._last(text, reason)
            case FinishReason.ABORT:
                raise AbandonedError
            case FinishReason.ERROR:
                raise InternalError(f"the engine could not go on: {output.error}")

    def _show(self, token_ids: tuple[int, ...]) -> str:
        text: list[str] = []
        count = 0
        for token_id in token_ids:
            count += 1
            text.append(self._stops.push(self._decoder.push((token_id,))))
            if self._stops.matched:
                break
        self._meter.tokens(count)
        return "".join(text)

    def _last(self, text: str, reason: FinishReason) -> Piece:
        text += self._stops.push(self._decoder.flush())
        if self._stops.matched:
            reason = FinishReason.STOP
        return Piece(text + self._stops.flush(), reason.value)
