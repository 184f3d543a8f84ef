"""The simulated engine turns away whom the real server turns away, and for the same reason."""

from __future__ import annotations

import random
from collections import Counter
from math import inf

import pytest

from paceline_engine.config import StepTimeLaw
from paceline_engine.message import StepStats
from paceline_engine.request import Tier
from paceline_engine.server import flag_table, level, metric_names
from paceline_engine.server.admin_wire import Slo, SloMetric
from paceline_engine.server.admission import Admission
from paceline_engine.server.errors import NeverFitsError, OverloadedError
from paceline_engine.server.flags import Flag
from paceline_engine.server.prefill_rate import PrefillRate
from paceline_engine.server.queue_limit import queue_limit
from paceline_engine.server.queue_rule import QueueRule
from paceline_engine.server.slo import SloBoard
from paceline_engine.server.ticket import Ask, Ticket
from paceline_operator.api import choice
from paceline_operator.autopilot.vocabulary.policy import Objective
from paceline_operator.simulator import engine_config
from paceline_operator.simulator.engine import entrance
from paceline_operator.simulator.engine.entrance import Entrance
from paceline_operator.simulator.engine.sequence import Sequence
from paceline_operator.simulator.engine_config import EngineConfig
from paceline_operator.simulator.law import StepLaw
from paceline_operator.simulator.queue_limits import by_objectives
from paceline_operator.simulator.request import Request
from paceline_operator.simulator.sink import Served

BUDGET = 256


class Both:
    """One server's admission, and the simulated one beside it."""

    def __init__(
        self, limits: dict[str, float], max_queue_s: float | None, slos: tuple[Slo, ...] = ()
    ) -> None:
        board = SloBoard("m")
        board.replace(slos)
        self.now_s = 0.0
        self.rate = PrefillRate(lambda: BUDGET, StepTimeLaw(base_ms=9.0, per_token_ms=0.2))
        self.real = Admission(
            int(limits["requests"]),
            int(limits["tokens"]),
            max_kv_tokens=limits["kv"],
            queue_limit=queue_limit(QueueRule.SLO if slos else max_queue_s, board),
            first_rate=self.rate,
            clock=lambda: self.now_s,
        )
        config = EngineConfig(
            law=StepLaw(base_ms=9.0, per_prefill_token_ms=0.2, per_decode_row_ms=0.2),
            num_kv_blocks=200,
            max_model_len=3000,
            max_num_batched_tokens=BUDGET,
            max_num_seqs=16,
            initial_batched_tokens=BUDGET,
            initial_running_seqs=16,
            max_queued_requests=limits["requests"],
            max_queued_tokens=limits["tokens"],
            max_kv_tokens=limits["kv"],
            max_queue_s=max_queue_s,
            queue_limits_s=by_objectives(_objectives(slos)) if slos else None,
        )
        self.simulated = Entrance(config)
        self.waiting: dict[Sequence, Ticket] = {}
        self.served: dict[Sequence, Ticket] = {}

    def come(self, number: int, request: Request) -> str | None:
        """Returns why both turn the request away; None where both let it in."""
        sequence = Sequence(
            Served(request, number, self.now_s),
            number,
            request.prompt_tokens + request.output_tokens,
            10.0,
        )
        verdict, ticket = self._ask(request)
        assert self.simulated.refusal(sequence, BUDGET, self.now_s) == verdict
        if ticket is not None:
            self.simulated.enter(sequence, self.now_s)
            self.waiting[sequence] = ticket
        return verdict

    def start(self, sequence: Sequence) -> None:
        ticket = self.served[sequence] = self.waiting.pop(sequence)
        ticket.start()
        sequence.served.first_s = self.now_s
        self.simulated.start(sequence, self.now_s)

    def end(self, sequence: Sequence) -> None:
        ticket = self.served.pop(sequence, None) or self.waiting.pop(sequence)
        ticket.end(3)
        self.simulated.end(sequence)

    def step(self, tokens: int, rows: int, seconds: float) -> None:
        self.rate.add(StepStats("mixed", seconds, tokens, rows, 0, 0, False, 0, 0))
        if self.simulated.rate is not None:
            self.simulated.rate.add(tokens, rows, seconds, BUDGET)

    def _ask(self, request: Request) -> tuple[str | None, Ticket | None]:
        ask = Ask(request.prompt_tokens, request.output_tokens)
        try:
            return None, self.real.enter([ask], Tier(request.tier))[0]
        except NeverFitsError:
            return metric_names.NEVER_FITS, None
        except OverloadedError as refusal:
            return refusal.code, None


def _objectives(slos: tuple[Slo, ...]) -> tuple[Objective, ...]:
    return tuple(
        Objective(
            name=each.name,
            metric=choice.SloMetric(each.metric.value),
            target_ms=each.target_ms,
            tier=choice.Tier(each.tier),
            percentile=each.percentile,
        )
        for each in slos
    )


def _slo(metric: SloMetric, target_ms: int, tier: str = "interactive", percentile: int = 95) -> Slo:
    return Slo(name=f"{metric}-{tier}-{target_ms}", metric=metric, target_ms=target_ms,
               percentile=percentile, tier=tier)  # fmt: skip


FIRST = (_slo(SloMetric.TTFT, 400), _slo(SloMetric.TTFT, 50), _slo(SloMetric.ITL, 10))
OBJECTIVES = (
    (),
    FIRST,
    (*FIRST, _slo(SloMetric.TTFT, 200, "batch")),
    (_slo(SloMetric.TTFT, 50, "batch"),),
    (_slo(SloMetric.ITL, 10),),
    (_slo(SloMetric.TTFT, 400), _slo(SloMetric.TTFT, 50, percentile=50)),
    (_slo(SloMetric.TTFT, 60), _slo(SloMetric.TTFT, 15, percentile=99), _slo(SloMetric.TTFT, 5)),
)


def live(seed: int) -> Counter[str | None]:
    chance = random.Random(seed)
    limits = {
        "requests": chance.choice((4, 30)),
        "tokens": chance.choice((400, 4000)),
        "kv": chance.choice((400.0, 3000.0, inf)),
    }
    both = Both(limits, chance.choice((None, 0.05, 0.5)), chance.choice(OBJECTIVES))
    verdicts: Counter[str | None] = Counter()
    for number in range(60):
        both.now_s += chance.expovariate(chance.choice((5.0, 50.0, 500.0)))
        tier = chance.choice(("interactive", "interactive", "batch"))
        request = Request(both.now_s, chance.randint(1, 200), chance.randint(1, 300), (), tier)
        verdicts[both.come(number, request)] += 1
        if both.waiting and chance.random() < 0.6:
            both.step(chance.randint(1, BUDGET), chance.randint(0, 9), chance.uniform(0.01, 0.1))
            for each in list(both.waiting)[: chance.randint(1, 3)]:
                both.start(each)
        everyone = [*both.waiting, *both.served]
        if everyone and chance.random() < 0.5:
            both.end(chance.choice(everyone))
    return verdicts


def test_both_turn_the_same_away() -> None:
    verdicts = sum((live(seed) for seed in range(150)), Counter())
    expected = {None, metric_names.NEVER_FITS, *metric_names.OVERLOAD_REASONS}
    assert set(verdicts) == expected


def test_the_shares_are_the_same() -> None:
    assert entrance.BATCH_SHARE == level.BATCH_SHARE


@pytest.mark.parametrize(
    ("flag", "field"),
    [
        (Flag.MAX_QUEUED_REQUESTS, "max_queued_requests"),
        (Flag.MAX_QUEUED_TOKENS, "max_queued_tokens"),
        (Flag.MAX_QUEUE_SECONDS, "max_queue_s"),
        (Flag.BLOCK_SIZE, "block_size"),
        (Flag.PREFIX_CACHING, "prefix_caching"),
        (Flag.BATCH_WEIGHT, "batch_weight"),
        (Flag.INTERACTIVE_MAX_WAIT_SECONDS, "interactive_max_wait_s"),
        (Flag.BATCH_MAX_WAIT_SECONDS, "batch_max_wait_s"),
    ],
)
def test_defaults_are_those_of_the_flags(flag: Flag, field: str) -> None:
    defaults = {row.flag: row.default for group in flag_table.GROUPS.values() for row in group}
    assert EngineConfig.__dataclass_fields__[field].default == defaults[flag]


def test_the_projected_kv_is_the_flags() -> None:
    rows = [row for group in flag_table.GROUPS.values() for row in group]
    (row,) = (row for row in rows if row.flag is Flag.MAX_PROJECTED_KV)
    assert row.default == engine_config.PROJECTED_KV
