"""One admitted request while it waits or runs: its tokens and how far they are computed."""

from __future__ import annotations

from collections.abc import Sequence as Ids
from dataclasses import dataclass
from math import inf

from msgspec import structs

from paceline_engine.message import TokenLogprobs, TokenOutput
from paceline_engine.request import FinishReason, Request
from paceline_engine.scheduler.share import NOTHING_CHARGED

DECODES_AHEAD = 128
"""Decodes that a running request is charged ahead. Fewer, and parties are let in that have more
than their share already; more, and it takes longer to make up for a lack."""
DECODES_AT_ONCE = 32
"""Decodes are charged in such parts, or a little more when it needs a block anyway: to sort a
tenant anew for each token would cost more."""
DECODES_LEFT = DECODES_AHEAD // 2
"""At least so many are charged ahead, however large blocks are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """A request's place in the order; preemption changes none of it.

    Attributes:
        arrival: Counts up by one with each request.
        received_s: When it came.
        due_s: From then on nothing of its tier may overtake it.
        deadline_s: Wanted end of its wait; infinite without one.
    """

    arrival: int
    received_s: float
    due_s: float = inf
    deadline_s: float = inf

    def is_due(self, now_s: float) -> bool:
        """Whether its maximum wait is over."""
        return self.due_s <= now_s

    def is_late(self, now_s: float) -> bool:
        """Whether it has waited for twice its maximum."""
        return 2 * self.due_s - self.received_s <= now_s


class Sequence:
    """Mutable state of one request, owned by the scheduler.

    Attributes:
        request: As submitted.
        request_id: Its id.
        sampling: How its tokens are drawn.
        ticket: Its place in the order.
        parent_id: Whose prompt it forks, if anyone's; another one's once that is gone.
        token_ids: Prompt and generated tokens; never shortened, so preemption loses none. Empty
            until it is first admitted: choices of one prompt share the request's own till then.
        num_prompt_tokens: How many of them are the prompt.
        num_computed: Leading tokens whose KV is in the cache.
        prefill_end: Tokens known when the sequence was last admitted; up to there chunks are
            prefill, beyond it decode.
        block_ids: Its block table; grows in place while it runs.
        capacity: Tokens its block table covers.
        quiet_until: Position up to which its decodes need nothing: no block, no charge. Below
            it no block becomes full and the output does not end by its length.
        tail: The token drawn last.
        end_ids: Tokens that end its output.
        max_total: Tokens at most, prompt and output.
        has_run: Whether any step ran a part of it; survives preemption.
        is_answered: Whether its first output was told.
        is_guest: Whether it got in while no interactive request waited for the place.
        preemptions: How often its blocks were taken back.
        queued_tokens: What it counts for while it waits.
        cached_tokens: Prompt tokens found in the prefix cache when it was first admitted.
        charged: What its tier's and its tenant's share were charged ahead for it.
    """

    __slots__ = (
        "_billed",
        "_paid_until",
        "_prompt_logprobs",
        "_queue_s",
        "block_ids",
        "cached_tokens",
        "capacity",
        "charged",
        "end_ids",
        "has_run",
        "is_answered",
        "is_guest",
        "max_total",
        "num_computed",
        "num_prompt_tokens",
        "parent_id",
        "preemptions",
        "prefill_end",
        "queued_tokens",
        "quiet_until",
        "request",
        "request_id",
        "sampling",
        "tail",
        "ticket",
        "token_ids",
    )

    def __init__(
        self, request: Request, max_total: int, eos_token_ids: frozenset[int], ticket: Ticket
    ) -> None:
        sampling = request.sampling
        self.request = request
        self.request_id = request.request_id
        self.sampling = sampling
        self.ticket = ticket
        self.parent_id = request.parent_id
        self.token_ids: list[int] = []
        self.num_prompt_tokens = len(request.prompt_token_ids)
        self.block_ids: Ids[int] = ()
        self._forget_kv()
        self.tail: tuple[int, ...] = ()
        self.max_total = min(self.num_prompt_tokens + sampling.max_tokens, max_total)
        self.has_run = False
        self.is_guest = False
        self.preemptions = 0
        self.queued_tokens = 0
        self.cached_tokens: int | None = None
        self.charged = NOTHING_CHARGED, NOTHING_CHARGED
        self._queue_s: float | None = None
        self._prompt_logprobs: list[TokenLogprobs] = []
        self.is_answered = False
        self._billed = 0  # known when it decodes quietly only with `num_computed`
        self._paid_until = self.num_prompt_tokens
        stop = frozenset(sampling.stop_token_ids)
        self.end_ids = stop if sampling.ignore_eos else stop | eos_token_ids

    @property
    def is_prefilling(self) -> bool:
        """Whether text known at admission is still to be computed."""
        return self.num_computed < self.prefill_end

    @property
    def has_prompt(self) -> bool:
        """Whether the KV of the whole prompt is in the cache."""
        return self.num_computed >= self.num_prompt_tokens

    @property
    def needs_whole_prompt(self) -> bool:
        """Whether log-probabilities of the prompt are still to be told: cached KV has none."""
        return self.request.sampling.prompt_logprobs is not None and not self.is_answered

    @property
    def num_remaining(self) -> int:
        """Known tokens that are not computed yet."""
        return len(self.known_ids) - self.num_computed

    @property
    def known_ids(self) -> Ids[int]:
        """Prompt and generated tokens, before it is admitted too; the same object until then."""
        return self.token_ids or self.request.prompt_token_ids

    def admit(self, num_computed: int, block_ids: Ids[int], block_size: int) -> None:
        """Starts computing everything that is known but for what the cache holds."""
        if not self.token_ids:
            self.token_ids = list(self.request.prompt_token_ids)
        self.prefill_end = len(self.token_ids)
        self.num_computed = num_computed
        self.block_ids = block_ids
        self.capacity = len(block_ids) * block_size
        self.quiet_until = 0

    def preempt(self) -> None:
        """Forgets the KV but no token."""
        self._billed = max(self._billed, self.num_computed)
        self._forget_kv()
        self.preemptions += 1

    def start(self, now_s: float) -> None:
        """A step runs the first part of it."""
        self.has_run = True
        self._queue_s = now_s - self.ticket.received_s

    def append(self, token_id: int) -> FinishReason | None:
        """Adds a drawn token; returns why the output ends with it, if it does.

        A token that ends the output by itself is not part of it and is not added.
        """
        if token_id in self.end_ids:
            return FinishReason.STOP
        self.token_ids.append(token_id)
        self.tail = (token_id,)
        return FinishReason.LENGTH if len(self.token_ids) >= self.max_total else None

    def add_prompt_logprobs(self, start: int, logprobs: tuple[TokenLogprobs, ...]) -> None:
        """Keeps those of a chunk from position `start`; ones known before are left out."""
        if not self.is_answered:
            self._prompt_logprobs.extend(logprobs[len(self._prompt_logprobs) - start :])

    def tell(self, output: TokenOutput) -> TokenOutput:
        """The output; the first one also says how it came to it."""
        if self.is_answered:
            return output
        self.is_answered = True
        told, self._prompt_logprobs = tuple(self._prompt_logprobs), []
        return structs.replace(
            output,
            queue_s=self._queue_s,
            cached_tokens=self.cached_tokens,
            prompt_logprobs=told,
        )

    def prepay(self) -> int:
        """Decode tokens to charge, so that it is as far ahead as anyone is."""
        served = max(self._billed, self.num_prompt_tokens)
        until = max(self._paid_until, min(served + DECODES_AHEAD, self.max_total - 1))
        tokens, self._paid_until = until - self._paid_until, until
        return tokens

    def bill(self, end: int) -> int:
        """Tokens to charge once positions up to `end` are computed; recomputed ones are free."""
        prompt, before = self.num_prompt_tokens, max(self._billed, self.num_computed)
        self._billed = max(before, end)
        drawn = max(0, end - max(before, self._paid_until))
        self._paid_until = max(self._paid_until, end)
        return max(0, min(end, prompt) - before) + drawn

    def bill_decode(self) -> int:
        """`bill` for the next position, where that is a decode; keeps some charged ahead."""
        self._billed = self.num_computed + 1
        ahead = self._paid_until - self._billed
        return 0 if ahead > DECODES_AHEAD - DECODES_AT_ONCE else self.prepay()

    def rest(self) -> None:
        """Lets decodes run until it needs a block, must be charged again or may end."""
        is_paid = self._paid_until >= self.max_total - 1
        paid = self.max_total - 1 if is_paid else self._paid_until - DECODES_LEFT
        self.quiet_until = min(self.capacity, paid)

    def settle(self) -> int:
        """Tokens charged ahead that were never served; to give back at the end."""
        served = max(self._billed, self.num_computed, self.num_prompt_tokens)
        tokens, self._paid_until = max(0, self._paid_until - served), served
        return tokens

    def _forget_kv(self) -> None:
        self.num_computed = 0
        self.prefill_end = 0
        self.block_ids = ()
        self.capacity = 0
        self.quiet_until = 0
