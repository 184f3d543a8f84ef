"""Limits on what may wait, and on what the admitted may still need. No I/O.

A request here is one choice of one prompt: a call brings prompts x choices of them, and all
of a call enter or none. Prompt tokens count once per prompt, since its choices share them.
What can never fit is the caller's mistake; what does not fit now may be retried, when the
measured drain says. The batch tier may fill `BATCH_SHARE` of each limit, so it is refused
first and interactive calls keep the rest. Where tenants are told apart, each is held to its
share of the half of a limit that is used last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from paceline_engine.request import Tier
from paceline_engine.server.drain_rate import DrainRate, retry_after_s
from paceline_engine.server.errors import OverloadedError
from paceline_engine.server.level import Level
from paceline_engine.server.prefill_rate import PrefillRate
from paceline_engine.server.queue_limit import QueueLimit
from paceline_engine.server.ticket import Ask, Ticket

FIRST_OUTPUT_TOKENS = 256
LONGEST_QUEUE_S = 3600.0  # projected where next to nothing leaves
_OUTPUT_WEIGHT = 0.05


@dataclass(frozen=True, slots=True)
class _Needs:
    """What a call brings in all."""

    requests: int
    prompt_tokens: int
    kv_tokens: int


class Admission:
    """Counts admitted requests that have no token yet, and KV of those that have not ended.

    Args:
        max_requests: Requests that may wait.
        max_tokens: Prompt tokens that may wait; a call with one prompt is never held to it
            while nothing else waits.
        max_kv_tokens: KV tokens that admitted requests may come to need, prompt and output.
        queue_limit: Wait that a call may have before it, by the measured drain.
        first_rate: How fast prompts are computed, which stands for the drain until that was
            measured, and how long they were worked on.
        tenant_weights: Of tenants, where they are not 1, whose callers may not take all places;
            None where all callers are one tenant.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        max_requests: int,
        max_tokens: int,
        *,
        max_kv_tokens: float = inf,
        queue_limit: QueueLimit | None = None,
        first_rate: PrefillRate | None = None,
        tenant_weights: Mapping[str, float] | None = None,
        clock: Callable[[], float],
    ) -> None:
        self._clock = clock
        self._requests = Level("queued_requests", "{} requests wait already", max_requests)
        self._tokens = Level("queued_tokens", "{} prompt tokens wait already", max_tokens)
        self._kv = Level(
            "projected_kv", "admitted requests may need {} tokens of KV cache", max_kv_tokens
        )
        for level in (self._requests, self._tokens, self._kv):
            level.weights = tenant_weights
        self._queue_limit = queue_limit
        self._first_rate = first_rate
        if first_rate is not None:
            self._tokens.drain = DrainRate(worked_s=lambda: first_rate.worked_s)
        self._mean_output = FIRST_OUTPUT_TOKENS / 2

    @property
    def requests(self) -> int:
        """Requests that wait."""
        return self._requests.total

    @property
    def tokens(self) -> int:
        """Prompt tokens that wait."""
        return self._tokens.total

    @property
    def kv_tokens(self) -> int:
        """KV tokens that admitted requests may come to need."""
        return self._kv.total

    def check_requests(self, count: int, tier: Tier = Tier.INTERACTIVE) -> None:
        """Whether so many more requests may wait, whatever their lengths.

        Raises:
            NeverFitsError: They may not, however empty the queue is.
            OverloadedError: They may not now.
        """
        self._requests.check_ever(count, tier, f"{count} requests (prompts x choices)")
        self._requests.check_now(count, tier, self._clock())

    def enter(
        self, asks: Sequence[Ask], tier: Tier = Tier.INTERACTIVE, tenant: str = ""
    ) -> list[Ticket]:
        """Takes all requests of one call in, or none.

        Args:
            asks: One for each prompt.
            tier: The call's.
            tenant: Whose it is.

        Returns:
            A ticket for each choice of the first prompt, then of the second, and so on.

        Raises:
            NeverFitsError: It cannot fit, however empty the engine is.
            OverloadedError: A limit would be passed; `code` is the rejection reason.
        """
        needs = self._needs(asks)
        self._check(asks, needs, tier)
        self._check_shares(needs, tier, tenant)
        now_s = self._clock()
        self._requests.add(tier, needs.requests, now_s, tenant)
        self._tokens.add(tier, needs.prompt_tokens, now_s, tenant)
        self._kv.add(tier, needs.kv_tokens, now_s, tenant)
        return [ticket for ask in asks for ticket in self._tickets(ask, tier, tenant)]

    def projected_queue_s(self, tier: Tier) -> float | None:
        """Wait that a call of a tier has before it; None while nothing tells.

        Interactive requests are not held up by batch ones. It is never less than the time in
        which none of those ahead has been served: no rate tells when a seat that others hold
        for long outputs becomes free.
        """
        used = self._tokens.used
        ahead = self._tokens.total if tier is Tier.BATCH else used[Tier.INTERACTIVE]
        now_s = self._clock()
        if not ahead:
            return 0.0
        per_second = self._tokens.drain.per_second(now_s)
        if per_second is None and self._first_rate is not None:
            per_second = self._first_rate.per_second()
        if per_second is None:
            return None
        work_s = ahead / per_second if per_second else LONGEST_QUEUE_S
        return min(LONGEST_QUEUE_S, max(work_s, self._tokens.waited_s(tier, now_s)))

    def started(self, ticket: Ticket, *, served: bool) -> None:
        """A ticket's request waits no more."""
        now_s = self._clock()
        self._requests.remove(ticket.tier, 1, now_s, ticket.tenant, served=served)
        self._tokens.remove(ticket.tier, ticket.prompt_tokens, now_s, ticket.tenant, served=served)

    def ended(self, ticket: Ticket, output_tokens: int | None) -> None:
        """A ticket's request is over."""
        now_s = self._clock()
        self._kv.remove(ticket.tier, ticket.kv_tokens, now_s, ticket.tenant, served=True)
        if output_tokens is not None:
            self._mean_output += _OUTPUT_WEIGHT * (output_tokens - self._mean_output)

    def _needs(self, asks: Sequence[Ask]) -> _Needs:
        prompts = sum(ask.prompt_tokens for ask in asks)
        outputs = sum(ask.choices * self._output(ask) for ask in asks)
        return _Needs(sum(ask.choices for ask in asks), prompts, prompts + outputs)

    def _output(self, ask: Ask) -> int:
        """Tokens to reckon with for each choice."""
        if ask.is_limited:
            return ask.output_tokens
        return min(ask.output_tokens, round(2 * self._mean_output))

    def _tickets(self, ask: Ask, tier: Tier, tenant: str) -> list[Ticket]:
        output = self._output(ask)
        kv_tokens = ask.prompt_tokens + output
        first = Ticket(self, tier, ask.prompt_tokens, kv_tokens, tenant=tenant)
        others = (
            Ticket(self, tier, 0, output, shares_prompt=True, tenant=tenant)
            for _ in range(ask.choices - 1)
        )
        return [first, *others]

    def _check(self, asks: Sequence[Ask], needs: _Needs, tier: Tier) -> None:
        self.check_requests(needs.requests, tier)
        self._check_tokens([ask.prompt_tokens for ask in asks], tier)
        self._check_kv(needs.kv_tokens, tier, is_limited=all(ask.is_limited for ask in asks))
        self._check_queue(max(ask.prompt_tokens for ask in asks), tier)

    def _check_shares(self, needs: _Needs, tier: Tier, tenant: str) -> None:
        now_s = self._clock()
        self._requests.check_share(needs.requests, tier, tenant, now_s)
        self._tokens.check_share(needs.prompt_tokens, tier, tenant, now_s)
        self._kv.check_share(needs.kv_tokens, tier, tenant, now_s)

    def _check_tokens(self, prompts: Sequence[int], tier: Tier) -> None:
        if len(prompts) == 1 and not self.requests:
            return
        tokens = sum(prompts)
        if len(prompts) > 1:
            self._tokens.check_ever(tokens, tier, f"{tokens} prompt tokens")
        self._tokens.check_now(tokens, tier, self._clock())

    def _check_kv(self, tokens: int, tier: Tier, *, is_limited: bool) -> None:
        if is_limited:
            named = f"{tokens} tokens of KV cache (prompts + choices x max_tokens)"
            self._kv.check_ever(tokens, tier, named)
        if self.kv_tokens:
            self._kv.check_now(tokens, tier, self._clock())

    def _check_queue(self, prompt_tokens: int, tier: Tier) -> None:
        limit_s = self._longest_wait_s(prompt_tokens, tier)
        wait_s = None if limit_s is None else self.projected_queue_s(tier)
        if limit_s is None or wait_s is None or wait_s <= limit_s:
            return
        raise OverloadedError(
            f"{self.tokens} prompt tokens wait already, {wait_s:.1f} s of work, and the limit of "
            f"the {tier.value} tier is {limit_s:.1f} s; retry later",
            code="queue_delay",
            retry_after_s=retry_after_s(wait_s - limit_s, per_second=1.0),
        )

    def _longest_wait_s(self, prompt_tokens: int, tier: Tier) -> float | None:
        if self._queue_limit is None:
            return None
        rate = None if self._first_rate is None else self._first_rate.per_second()
        return self._queue_limit(tier, prompt_tokens / rate if rate else None)
