"""One HTTP call to a generating route: its choices, admitted together, run side by side.

A call may have thousands of choices. Whatever is done for each of them is done for some at a
time, with a turn of the event loop between, so that no other call's stream waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from paceline_engine.server.answer_wire import PromptTokensDetails, Usage
from paceline_engine.server.caller import Caller
from paceline_engine.server.choices import BadWords, Choice, Prompt, most_output, plan_choices
from paceline_engine.server.draft import Draft
from paceline_engine.server.errors import UnservableSettingsError
from paceline_engine.server.gate import Gate
from paceline_engine.server.generation import AbandonedError, Generation, Order
from paceline_engine.server.merge import Indexed, Merge
from paceline_engine.server.opening import PromptScores, PromptView
from paceline_engine.server.piece import Piece, best
from paceline_engine.server.request_meter import Stall
from paceline_engine.server.sampling_fields import SamplingFields
from paceline_engine.server.service import Service
from paceline_engine.server.stop_automaton import StopAutomaton
from paceline_engine.server.ticket import Ask, Ticket

CHOICES_A_TURN: Final = 64  # of the event loop, or the choices of one prompt


class Call:
    """Checked prompts of one call; used as an asynchronous context manager around their run.

    Args:
        service: Engine and meters.
        body: The checked body.
        prompts: Each fits.
        received_at: Monotonic time of the call's first byte.
        caller: Whose call it is.
        bad_words: The body's, as token ids.
        stops: Its stop strings, where they have been made ready.

    Attributes:
        left: Set once the client has left.
    """

    def __init__(
        self,
        service: Service,
        body: SamplingFields,
        prompts: Sequence[Prompt],
        received_at: float,
        *,
        caller: Caller = Caller(),  # noqa: B008 frozen
        bad_words: BadWords = (),
        stops: StopAutomaton | None = None,
    ) -> None:
        self._service = service
        self._body = body
        self._prompts = prompts
        self._received_at = received_at
        self._caller = caller
        self._bad_words = bad_words
        self._stops = stops or StopAutomaton(body.stop)
        self._generations: list[Generation] = []
        self._closed = 0
        self._merge = Merge()
        self._starting: asyncio.Task[None] | None = None
        self._pressed_s = 0.0
        self._stall = Stall()
        self._unfinished = "error"
        self.left = asyncio.Event()

    @property
    def usage(self) -> Usage:
        """Tokens so far: each prompt once, the outputs of all its candidates."""
        firsts = self._generations[:: self._body.candidates]
        prompt = sum(each.prompt_tokens for each in firsts)
        output = sum(each.output_tokens for each in self._generations)
        cached = PromptTokensDetails(cached_tokens=sum(each.cached_tokens for each in firsts))
        return Usage(
            prompt_tokens=prompt,
            completion_tokens=output,
            total_tokens=prompt + output,
            prompt_tokens_details=cached,
        )

    def choice_usage(self, index: int, piece: Piece) -> Usage:
        """Tokens of one choice once this piece of it, the next, has been handed on."""
        generation = self._generations[index]
        prompt, output = generation.prompt_tokens, generation.shown_with(piece)
        return Usage(prompt_tokens=prompt, completion_tokens=output, total_tokens=prompt + output)

    async def __aenter__(self) -> Self:
        """Admits all choices, or none.

        Raises:
            NeverFitsError: More than this engine can ever hold.
            OverloadedError: Too much waits.
            UnavailableError: Loading, draining or dead.
        """
        asks = [self._ask(prompt) for prompt in self._prompts]
        tenant = self._caller.cache_scope.tenant
        tickets = Gate(self._service).enter(asks, self._body.tier, tenant)
        try:
            await self._begin(tickets)
        except BaseException:
            self._close_rest()
            for ticket in tickets:
                ticket.end()
            raise
        return self

    async def _begin(self, tickets: Sequence[Ticket]) -> None:
        choices = plan_choices(
            self._body,
            self._prompts,
            limit=self._service.config.max_request_tokens,
            draw_seed=self._service.draw_seed,
            bad_words=self._bad_words,
        )
        view: PromptView | None = None
        for choice, ticket in zip(choices, tickets, strict=True):
            if choice.index == 0:
                view = self._view(choice.prompt)
                if self._generations and not len(self._generations) % self._turn:
                    await asyncio.sleep(0)
            self._generations.append(self._generation(choice, ticket, view))

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            for _ in range(0, len(self._generations), self._turn):
                self._close_some()
                await asyncio.sleep(0)
        finally:
            self._close_rest()

    def _close_rest(self) -> None:
        while self._closed < len(self._generations):
            self._close_some()

    def _close_some(self) -> None:
        """Ends the next few choices."""
        if self._starting is not None:
            self._starting.cancel()
        some = slice(self._closed, self._closed + self._turn)
        self._closed = some.stop
        self._merge.stop(some)
        unfinished = [each for each in self._generations[some] if each.is_open]
        self._service.client.abort(*(each.request_id for each in unfinished))
        outcome = "abort" if self.left.is_set() else self._unfinished
        for each in self._generations[some]:
            each.close(outcome)

    @property
    def _turn(self) -> int:
        """Choices at a time: those of whole prompts, which the engine takes and drops together."""
        return max(1, CHOICES_A_TURN // self._body.candidates) * self._body.candidates

    def cancel(self) -> None:
        """The client has left: `pieces` ends, and whoever iterates over it leaves the context."""
        self.left.set()
        if len(self._generations) == 1:
            self._generations[0].cancel()
        else:
            self._merge.fail(AbandonedError())

    def handed(self, index: int, piece: Piece) -> None:
        """A piece, written, is about to be handed to the connection."""
        self._pressed_s = self._caller.pressure.seconds
        self._generations[index].handed(piece)

    def written(self, index: int, piece: Piece) -> None:
        """A piece has been passed on; while its client did not read, all choices waited for that.

        What writing took beside that is time of the server's.
        """
        pressed_s = self._caller.pressure.seconds
        self._stall.add(pressed_s - self._pressed_s)
        self._pressed_s = pressed_s
        self._generations[index].written(piece)

    async def all_written(self, lasts: Mapping[int, Piece]) -> None:
        """A whole answer has been passed on, with these last pieces of its outputs."""
        for count, (index, piece) in enumerate(lasts.items(), 1):
            self.written(index, piece)
            if not count % CHOICES_A_TURN:
                await asyncio.sleep(0)

    async def pieces(self) -> AsyncIterator[Indexed]:
        """Pieces of all outputs as they come, each with its output's index.

        Raises:
            AbandonedError: `cancel` was called.
            ApiError: The engine failed, or cannot do what the body asks.
        """
        outputs = len(self._generations)
        try:
            if outputs == 1:
                self._generations[0].submit(())
                async for piece in self._generations[0].pieces():
                    yield 0, piece
                return
            self._starting = asyncio.create_task(self._start())
            async for indexed in self._merge.pieces(outputs):
                if self.left.is_set():
                    raise AbandonedError
                yield indexed
        except UnservableSettingsError:
            self._unfinished = "invalid"
            raise

    async def _start(self) -> None:
        choices = self._body.candidates
        try:
            for at in range(0, len(self._generations), choices):
                if at and not at % self._turn:
                    await asyncio.sleep(0)
                first, *others = family = self._generations[at : at + choices]
                first.submit(others)
                for each in family:
                    self._merge.follow(each.pieces())
        except Exception as error:  # noqa: BLE001 raised by whoever iterates over the pieces
            self._merge.fail(error)

    async def chosen(self, drafts: Mapping[int, Draft]) -> list[Piece]:
        """The whole answer's choices from all outputs' drafts: the best of each prompt.

        The event loop gets its turns between outputs.
        """
        wholes = []
        for index in sorted(drafts):
            wholes.append(drafts[index].whole())
            await asyncio.sleep(0)
        candidates, choices = self._body.candidates, self._body.choices
        if candidates == choices:
            return wholes
        prompts = [wholes[at : at + candidates] for at in range(0, len(wholes), candidates)]
        return [choice for outputs in prompts for choice in best(outputs, choices)]

    def _ask(self, prompt: Prompt) -> Ask:
        return Ask(
            len(prompt.token_ids),
            most_output(self._body, prompt, self._service.config.max_request_tokens),
            choices=self._body.candidates,
            is_limited=self._body.output_limit is not None,
        )

    def _view(self, prompt: Prompt) -> PromptView | None:
        body = self._body
        scored = body.needed_prompt_logprobs() is not None
        if not (scored or body.echoes or body.return_token_ids):
            return None
        return PromptView(
            prompt,
            self._service.tokenizer,
            echoes=body.echoes,
            scores=PromptScores() if scored else None,
        )

    def _generation(self, choice: Choice, ticket: Ticket, view: PromptView | None) -> Generation:
        order = Order(
            choice=choice,
            body=self._body,
            stops=self._stops,
            caller=self._caller,
            view=view,
            is_fork=choice.index > 0,
            position=len(self._generations),
            received_at=self._received_at,
            stall=self._stall,
        )
        return Generation(self._service, ticket, order)
