"""Limits on what may wait, and on what the accepted may still need, as the server's."""

from __future__ import annotations

from math import isfinite

from paceline_operator.simulator.engine.drain_rate import DrainRate
from paceline_operator.simulator.engine.prefill_rate import PrefillRate
from paceline_operator.simulator.engine.sequence import (
    BATCH_TIER,
    INTERACTIVE_TIER,
    Sequence,
)
from paceline_operator.simulator.engine_config import PROJECTED_KV, EngineConfig
from paceline_operator.simulator.queue_limits import QueueLimits

BATCH_SHARE = 0.8
"""The batch tier may fill so much of each limit; the rest is kept for interactive requests."""
LONGEST_QUEUE_S = 3600.0
NEVER_FITS = "never_fits"


class Entrance:
    """Counts accepted requests that have no token yet, and KV of those that are not over.

    Args:
        config: The limits.

    Attributes:
        rate: How fast prompts are computed; to be told of steps where a wait is limited.
    """

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._longest_waits_s = _longest_waits_s(config)
        has_limit = any(self._longest_waits_s)
        self.rate = PrefillRate(config.law) if has_limit else None
        max_kv = config.max_kv_tokens
        self._max_kv = PROJECTED_KV * config.kv_capacity_tokens if max_kv is None else max_kv
        self._requests = 0
        self._tokens = [0, 0]
        self._kv_tokens = 0
        self._drain = DrainRate(self._worked_s)
        self._stood_since_s = [0.0, 0.0]

    def refusal(self, sequence: Sequence, budget: int, now_s: float) -> str | None:
        """Why a request is turned away; None where it is not.

        Args:
            sequence: The request.
            budget: Token budget in force.
            now_s: When it came.
        """
        config, tier, kv_tokens = self._config, sequence.tier, sequence.max_total
        max_kv, tokens = _limit(self._max_kv, tier), sum(self._tokens) + sequence.prompt
        if sequence.prompt >= config.max_request_tokens:
            return NEVER_FITS
        if self._requests + 1 > _limit(config.max_queued_requests, tier):
            return "queued_requests"
        if self._requests and tokens > _limit(config.max_queued_tokens, tier):
            return "queued_tokens"
        if kv_tokens > max_kv:
            return NEVER_FITS
        if self._kv_tokens and self._kv_tokens + kv_tokens > max_kv:
            return "projected_kv"
        return "queue_delay" if self._waits_too_long(sequence, budget, now_s) else None

    def enter(self, sequence: Sequence, now_s: float) -> None:
        """A request is accepted."""
        tier = sequence.tier
        if not self._tokens[tier]:
            self._stood_since_s[tier] = now_s
        self._requests += 1
        self._tokens[tier] += sequence.prompt
        self._kv_tokens += sequence.max_total
        if self.rate is not None:
            self._drain.came(sequence.prompt, now_s)

    def start(self, sequence: Sequence, now_s: float) -> None:
        """A request got its first token: it waits no more."""
        self._leave(sequence)
        self._stood_since_s[sequence.tier] = now_s
        if self.rate is not None:
            self._drain.left(sequence.prompt, now_s)

    def end(self, sequence: Sequence) -> None:
        """A request is over."""
        self._kv_tokens -= sequence.max_total
        if sequence.served.first_s is None:
            self._leave(sequence)
            self._drain.gone(sequence.prompt)

    def _worked_s(self) -> float:
        return 0.0 if self.rate is None else self.rate.worked_s

    def _leave(self, sequence: Sequence) -> None:
        self._requests -= 1
        self._tokens[sequence.tier] -= sequence.prompt

    def _waits_too_long(self, sequence: Sequence, budget: int, now_s: float) -> bool:
        """Whether a request would wait longer than it may, by the measured drain."""
        tier, rate = sequence.tier, self.rate
        waits_s = self._longest_waits_s[tier]
        interactive = self._tokens[INTERACTIVE_TIER]
        ahead = interactive if tier == INTERACTIVE_TIER else sum(self._tokens)
        if not waits_s or rate is None or not ahead:
            return False
        per_second = self._drain.per_second(now_s)
        if per_second is None:
            per_second = rate.per_second(budget)
        work_s = ahead / per_second if per_second else LONGEST_QUEUE_S
        wait_s = min(LONGEST_QUEUE_S, max(work_s, self._stood_s(tier, now_s)))
        if len(waits_s) == 1:
            return wait_s > waits_s[0]
        alone_s = sequence.prompt / rate.per_second(budget)
        return wait_s > next((each for each in waits_s if alone_s <= each), waits_s[0])

    def _stood_s(self, tier: int, now_s: float) -> float:
        """How long what a request of a tier comes after has been there, none of it served."""
        if tier == BATCH_TIER:
            return self._drain.waited_s(now_s)
        return max(0.0, now_s - self._stood_since_s[tier])


def _longest_waits_s(config: EngineConfig) -> QueueLimits:
    """By tier, as tiers are numbered."""
    limit_s = config.max_queue_s
    if config.queue_limits_s is not None:
        return config.queue_limits_s
    return ((), ()) if limit_s is None else ((limit_s,), (limit_s * BATCH_SHARE,))


def _limit(limit: float, tier: int) -> float:
    """Most that may be there for a request of a tier to enter."""
    if tier == INTERACTIVE_TIER or not isfinite(limit):
        return limit
    return max(1, int(limit * BATCH_SHARE))
