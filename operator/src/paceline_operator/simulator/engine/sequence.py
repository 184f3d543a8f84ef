"""One request inside a simulated engine, while it waits or runs."""

from __future__ import annotations

from paceline_operator.autopilot.vocabulary.window import BATCH
from paceline_operator.simulator.sink import Served

INTERACTIVE_TIER = 0
BATCH_TIER = 1
TIERS = (INTERACTIVE_TIER, BATCH_TIER)
MAX_PREEMPTIONS = 4
"""After so many a request is protected: it is never a victim."""
_GROUP = 1 << 48


class Sequence:
    """Mutable state of one request.

    While it decodes it gets a token in every step, so nothing of it is touched: where it stands
    is `offset` plus the number of steps that have run.

    Args:
        served: What is told of it.
        arrival: Counts up by one with each request.
        max_total: Tokens at most, prompt and output.
        max_wait_s: After so long nothing of its tier may overtake it.

    Attributes:
        tier: `INTERACTIVE_TIER` or `BATCH_TIER`.
        due_s: From then on nothing of its tier may overtake it.
        late_s: When it will have waited for twice its maximum.
        prompt: Tokens of the prompt.
        known: Tokens of prompt and answer; behind while it decodes.
        computed: Leading tokens whose KV is in the cache; behind while it decodes.
        prefill_end: Tokens known when it was last let in; up to there chunks are prefill.
        is_waiting: Whether it is queued, aside or not.
        is_aside: Whether it is queued but set aside.
        is_running: Whether it holds blocks.
        is_decoding: Whether it runs and has no known text to compute.
        offset: While it decodes: tokens computed less steps run.
        end_step: While it decodes: number of the step that ends it.
        rank: While it runs: its place among the running, the smallest is served first.
        is_guest: Whether it got in while no interactive request waited for the place.
        has_run: Whether any step ran a part of it.
        queued_tokens: What it counts for while it waits.
        preemptions: How often its blocks were taken back.
        billed: Position up to which its tier was charged for it.
        paid_until: Position up to which decodes are charged ahead.
        charged_lifts: Lifts of its tier's share when it was last charged ahead.
        charged_tokens: Tokens charged ahead since that lift.
        keys: Of the full blocks of its prompt that other prompts may share.
        table: Keys of its leading filled blocks as far as noted, None for one that another
            block stands for in the index; only of a request with `keys`.
        is_remnant: Whether blocks of its own are cached that it computes anew.
        late_before: Late steps by ITL target when its run of gaps began.
        gaps_before: Steps run when its run of gaps began.
    """

    __slots__ = (
        "arrival",
        "billed",
        "charged_lifts",
        "charged_tokens",
        "computed",
        "due_s",
        "end_step",
        "gaps_before",
        "has_run",
        "is_aside",
        "is_decoding",
        "is_guest",
        "is_remnant",
        "is_running",
        "is_waiting",
        "keys",
        "known",
        "late_before",
        "late_s",
        "max_total",
        "offset",
        "paid_until",
        "preemptions",
        "prefill_end",
        "prompt",
        "queued_tokens",
        "rank",
        "served",
        "table",
        "tier",
    )

    def __init__(self, served: Served, arrival: int, max_total: int, max_wait_s: float) -> None:
        request = served.request
        self.served = served
        self.arrival = arrival
        self.tier = BATCH_TIER if request.tier == BATCH else INTERACTIVE_TIER
        self.prompt = self.known = self.paid_until = request.prompt_tokens
        self.billed = 0
        self.max_total = max_total
        self.due_s = served.received_s + max_wait_s
        self.late_s = 2 * self.due_s - served.received_s
        self.computed = self.prefill_end = 0
        self.is_waiting = self.is_aside = self.is_running = self.is_decoding = False
        self.offset = 0
        self.end_step = -1
        self.rank = 0
        self.is_guest = self.has_run = self.is_remnant = False
        self.queued_tokens = 0
        self.preemptions = 0
        self.charged_lifts = 0
        self.charged_tokens = 0.0
        self.keys: tuple[int, ...] = ()
        self.table: list[int | None] = []
        self.late_before: tuple[int, ...] = ()
        self.gaps_before = 0

    @property
    def is_protected(self) -> bool:
        """Whether it may no longer be preempted once it runs again."""
        return self.preemptions >= MAX_PREEMPTIONS

    @property
    def remaining(self) -> int:
        """Known tokens that are not computed yet."""
        return self.known - self.computed

    def let_in(self, cached: int, serial: int) -> None:
        """Starts to compute all that is known but for what the cache holds.

        Args:
            cached: Leading tokens found.
            serial: Counts up by one with each that is let in.
        """
        self.is_running = True
        self.prefill_end = self.known
        self.computed = cached
        group = 0 if self.is_protected else 1 + self.tier
        self.rank = group * _GROUP + serial

    def preempt(self) -> None:
        """Forgets the KV but no token."""
        self.billed = max(self.billed, self.computed)
        self.computed = self.prefill_end = 0
        self.preemptions += 1
        self.served.preemptions += 1
