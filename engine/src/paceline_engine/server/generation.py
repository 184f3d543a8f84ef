"""One choice on its way through the engine: token ids in, measured pieces of text out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from paceline_engine.client import EngineDeadError
from paceline_engine.message import Fork, TokenOutput
from paceline_engine.request import Fault, FinishReason, Request
from paceline_engine.server.caller import Caller
from paceline_engine.server.choices import Choice
from paceline_engine.server.errors import (
    ApiError,
    InternalError,
    UnavailableError,
    UnservableSettingsError,
)
from paceline_engine.server.opening import PromptView
from paceline_engine.server.output_text import OutputText
from paceline_engine.server.piece import Opening, Piece
from paceline_engine.server.request_meter import Stall
from paceline_engine.server.request_record import Identity
from paceline_engine.server.sampling_fields import SamplingFields
from paceline_engine.server.service import Service
from paceline_engine.server.stop_automaton import StopAutomaton
from paceline_engine.server.stop_strings import StopFilter
from paceline_engine.server.ticket import Ticket

REMEDIES: Final = {
    Fault.OVERFLOW: "bring repetition_penalty closer to 1",
    Fault.EXHAUSTED: "ban fewer tokens with bad_words, logit_bias and stop_token_ids, or lower "
    "min_tokens",
}


class AbandonedError(Exception):
    """The client has left; there is nobody to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a generation is to run, and for whom.

    Attributes:
        choice: Prompt and sampling.
        body: How the output is shown.
        stops: Its stop strings.
        caller: Whose it is.
        view: How the prompt is shown; None where nothing of it is.
        is_fork: Whether it is another choice of a prompt than the first.
        position: Place among the call's outputs.
        received_at: Monotonic time of the call's first byte.
        stall: Time in which the call's client did not read.
    """

    choice: Choice
    body: SamplingFields
    stops: StopAutomaton
    caller: Caller
    view: PromptView | None
    is_fork: bool
    position: int
    received_at: float
    stall: Stall

    def request(self, request_id: int) -> Request:
        """For the engine; of a fork it needs no more than `Fork`."""
        return Request(
            request_id=request_id,
            prompt_token_ids=self.choice.prompt.token_ids,
            sampling=self.choice.sampling,
            tier=self.body.tier,
            cache_scope=self.caller.cache_scope,
            deadline_s=self.caller.deadline_s,
        )

    def identity(self) -> Identity:
        """For the meters."""
        return Identity(
            request_id=self.caller.request_id,
            index=self.position,
            tier=self.body.tier,
            tenant=self.caller.cache_scope.tenant,
        )


class Generation:
    """Runs one admitted choice.

    The consumer iterates `pieces`, calls `handed` before it passes one on and `written`
    after, and `close` in any case. An end that is neither whole nor the client's leaving
    counts as an error.

    Args:
        service: Engine, tokenizer, meters.
        ticket: Its admission; ended with it.
        order: What to run.

    Attributes:
        request_id: The engine's name for it.
        cached_tokens: Prompt tokens that came from the prefix cache, once known.
    """

    def __init__(self, service: Service, ticket: Ticket, order: Order) -> None:
        self._client = service.client
        self._ticket = ticket
        self._order = order
        self.request_id = next(service.request_ids)
        self._text = self._output_text(service)
        self._meter = service.metering.admit(
            order.received_at,
            self.prompt_tokens,
            order.identity(),
            shares_prompt=ticket.shares_prompt,
            stall=order.stall,
        )
        self._outputs: AsyncIterator[TokenOutput] | None = None
        self._opening: Opening | None = None
        self._is_first = True
        self._is_open = True
        self._has_left = False
        self.cached_tokens = 0
        self._shown_tokens = 0

    def _output_text(self, service: Service) -> OutputText:
        order = self._order
        body, view = order.body, order.view
        skips_special = body.skip_special_tokens is not False
        return OutputText(
            service.tokenizer.incremental_decoder(skip_special=skips_special),
            StopFilter(order.stops, includes_stop=bool(body.include_stop_str_in_output)),
            min_tokens=order.choice.sampling.min_tokens,
            offset=len(view.text) if view else 0,
        )

    @property
    def seed(self) -> int:
        """Of its own, among the prompt's choices."""
        return self._order.choice.sampling.seed

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt."""
        return len(self._order.choice.prompt.token_ids)

    @property
    def output_tokens(self) -> int:
        """Tokens drawn for the answer so far, the one that ended it included."""
        return self._meter.output_tokens

    def submit(self, siblings: Sequence[Generation]) -> None:
        """Hands the engine the prompt, once for this choice and for those that fork it.

        Args:
            siblings: The other choices of the prompt.

        Raises:
            UnavailableError: The engine is dead.
        """
        if self._has_left:
            return
        forks = [Fork(each.request_id, each.seed) for each in siblings]
        try:
            outputs = self._client.submit(self._order.request(self.request_id), forks)
        except EngineDeadError as error:
            raise _gone(error) from error
        for generation, each in zip((self, *siblings), outputs, strict=True):
            generation.follow(each)

    def follow(self, outputs: AsyncIterator[TokenOutput]) -> None:
        """The engine has it, and these are its outputs."""
        self._outputs = outputs

    async def pieces(self) -> AsyncIterator[Piece]:
        """What comes of the choice, once submitted; ends after the piece with a finish reason.

        Raises:
            AbandonedError: `cancel` was called.
            InternalError: The engine failed on this request.
            UnservableSettingsError: The body's own settings leave no token to draw.
            UnavailableError: The engine is dead.
        """
        if self._has_left or self._outputs is None:
            raise AbandonedError
        try:
            async for output in self._outputs:
                piece = self._take(output)
                if self._is_first:
                    await self._open()
                    self._is_first = False
                piece = self._with_opening(piece)
                if piece.shown or piece.finish_reason:
                    self._opening = None
                    yield piece
                if piece.finish_reason:
                    return
        except EngineDeadError as error:
            raise _gone(error) from error

    def shown_with(self, piece: Piece) -> int:
        """Tokens of the pieces handed on so far and of this one, the next."""
        if piece.finish_reason:
            return self.output_tokens
        return self._shown_tokens + len(piece.token_ids)

    def handed(self, piece: Piece) -> None:
        """The piece is about to be handed to the connection (or kept for the whole answer)."""
        self._shown_tokens = self.shown_with(piece)
        if piece.shown:
            self._meter.emitted()
        if piece.finish_reason:
            self._meter.finished()
            self._ticket.end(self.output_tokens)  # what is left is the client's to read

    def written(self, piece: Piece) -> None:
        """The client's connection has taken the piece."""
        if piece.finish_reason:
            self._is_open = False
            self._meter.complete(piece.finish_reason)

    @property
    def is_open(self) -> bool:
        """Whether it has neither been passed on to its end nor closed."""
        return self._is_open

    def cancel(self) -> None:
        """The client has left: `pieces` ends with an `AbandonedError`."""
        self._has_left = True
        self._withdraw()

    def close(self, outcome: str = "error") -> None:
        """Frees what an unfinished choice holds; safe to call at any time, twice too.

        Args:
            outcome: What an unfinished one counts as, unless its client has left.
        """
        self._ticket.end()
        if self._is_open:
            self._is_open = False
            self._withdraw()
            self._meter.abandon("abort" if self._has_left else outcome)

    def _withdraw(self) -> None:
        self._client.abort(self.request_id)

    async def _open(self) -> None:
        view = self._order.view
        self._opening = await view.opening() if view else None

    def _with_opening(self, piece: Piece) -> Piece:
        return replace(piece, opening=self._opening) if self._opening else piece

    def _take(self, output: TokenOutput) -> Piece:
        if output.finish_reason is FinishReason.ABORT:
            raise AbandonedError
        if output.finish_reason is FinishReason.ERROR:
            raise _failure(output)
        self._note(output)
        if self._order.body.output_limit == 0:
            self._withdraw()
            return Piece(finish_reason=FinishReason.LENGTH.value)
        self._push(output)
        if self._text.stop is not None:
            self._withdraw()
            return self._last(FinishReason.STOP, self._text.stop)
        if output.finish_reason is None:
            return self._text.take()
        return self._end(output.finish_reason, output.stop_token_id)

    def _note(self, output: TokenOutput) -> None:
        if output.queue_s is not None:
            self._meter.queued(output.queue_s)
        if output.cached_tokens is not None:
            self.cached_tokens = output.cached_tokens
            self._meter.cached(output.cached_tokens)
        self._ticket.start()
        if self._is_first and not self._order.is_fork and self._order.view:
            self._order.view.tell(output.prompt_logprobs)

    def _push(self, output: TokenOutput) -> None:
        before = self._text.num_tokens
        scores = output.logprobs or (None,) * len(output.token_ids)
        for token_id, each in zip(output.token_ids, scores, strict=True):
            self._text.push(token_id, each)
            if self._text.stop is not None:
                break
        self._meter.tokens(self._text.num_tokens - before)

    def _end(self, reason: FinishReason, stop_token_id: int | None) -> Piece:
        body = self._order.body
        if stop_token_id is not None:
            self._meter.tokens(1)  # shown or not, it was drawn and is one of `max_tokens`
            if body.include_stop_str_in_output:
                self._text.show(stop_token_id)
        self._text.finish()
        if self._text.stop is not None:
            return self._last(FinishReason.STOP, self._text.stop)
        is_named = stop_token_id in (body.stop_token_ids or ())
        return self._last(reason, stop_token_id if is_named else None)

    def _last(self, reason: FinishReason, stop: str | int | None) -> Piece:
        return replace(self._text.take_all(), finish_reason=reason.value, stop_reason=stop)


def _gone(error: EngineDeadError) -> UnavailableError:
    return UnavailableError(f"the engine is gone: {error}")


def _failure(output: TokenOutput) -> ApiError:
    if output.fault is None:
        return InternalError(f"the engine could not go on: {output.error}")
    return UnservableSettingsError(f"{output.error}; {REMEDIES[output.fault]}")
