"""How measured first tokens correct the predicted capacity."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline_operator.autopilot.plant.capacity import Bound
from paceline_operator.autopilot.replicas.capacity_evidence import (
    GROWTH,
    MOST_FACTOR,
    RAISE_STEP,
    carried_rps,
    corrected,
    late_share_with,
)
from paceline_operator.autopilot.replicas.need import need
from paceline_operator.autopilot.replicas.pending import backlog_rps, late_from_before
from paceline_operator.autopilot.situation.situation import Situation, understand
from paceline_operator.autopilot.vocabulary.fleet import DataClass
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.window import Counter, SloCounts, StepClass, slo_key
from tests.operator.autopilot.build import TTFT, auto, fleet, moments, window

NOW = 1000.0


def served(
    rps: float, good: float, *, pods: int = 2, factor: float = 1.0, waiting: int = 0
) -> Situation:
    """Five minutes of prompts of 1,500 tokens, so many first tokens in time.

    The wait for a first token ends the predicted capacity of a replica.
    """
    slices = tuple(
        window(
            NOW - 5 * n - 5,
            NOW - 5 * n,
            counters={
                Counter.REQUESTS_RECEIVED: 5 * rps,
                Counter.PROMPT_TOKENS_RECEIVED: 7500 * rps,
            },
            slo={slo_key(TTFT, "TTFT", 500): SloCounts(5 * rps * good, 5 * rps * (1 - good))},
        )
        for n in reversed(range(60))
    )
    seen = fleet(pods=pods, slices=slices)
    seen = replace(
        seen,
        pods=tuple(replace(p, waiting=waiting, waiting_tokens=1500 * waiting) for p in seen.pods),
    )
    given = auto(500, 100, profile="llama-3-8b-a100", batch_max=512, batch_initial=512)
    return understand(given, seen, Memory(capacity_factor=factor), NOW)


def found_in_caches(s: Situation, shares: tuple[float, float]) -> Situation:
    """Four minutes of it with the first share of prompts in the prefix cache, then the other."""
    slices = tuple(
        replace(
            each,
            counters=dict(each.counters)
            | {
                Counter.PREFIX_QUERIES_TOKENS: each.offered_tokens,
                Counter.PREFIX_HITS_TOKENS: shares[each.end_s > NOW - 60] * each.offered_tokens,
            },
        )
        for each in s.fleet.slices
    )
    return understand(s.policy, replace(s.fleet, slices=slices), s.memory, NOW)


def after(s: Situation) -> float:
    return corrected(s).capacity_factor


def learns(s: Situation) -> bool:
    return corrected(s).capacity_factor_at_s == NOW


def capacity_rps() -> float:
    found = served(1.0, 1.0).capacity
    assert found is not None
    assert found[1] is Bound.TTFT
    return found[0]


@pytest.mark.parametrize(
    ("use", "good", "factor", "direction"),
    [
        (0.95, 1.00, 1.0, "up"),
        (0.95, 0.975, 1.0, "same"),  # half of the allowed misses: what is aimed at
        (0.95, 0.95, 1.0, "down"),  # the objective is held, but nothing is left of its misses
        (0.60, 1.00, 1.0, "same"),  # replicas half idle prove nothing
        (0.95, 0.80, 1.0, "down"),
        (0.75, 0.40, 1.0, "down"),  # the worse the misses, the surer
        (0.30, 0.80, 1.0, "same"),  # late on an idle replica: not by the load
        (0.85, 1.00, 0.8, "up"),
        (0.60, 1.00, 0.8, "up"),  # nothing speaks for the cut any more
        (0.95, 0.95, 0.8, "down"),  # and here something does
    ],
)
def test_the_factor_follows_what_first_tokens_prove(
    use: float, good: float, factor: float, direction: str
) -> None:
    s = served(2 * use * capacity_rps() * factor, good, factor=factor)
    found = after(s)
    assert ("up" if found > factor else "down" if found < factor else "same") == direction


def test_a_queue_from_before_is_no_fault_of_the_model() -> None:
    s = served(2 * 0.9 * capacity_rps(), 0.5, waiting=500)
    assert after(s) == 1.0


def queued(
    computed: float, *, shares: tuple[float, float] = (0.0, 0.0), batch: float = 0.0
) -> Situation:
    """A dozen on each replica, late: shares of what came that are computed, and came as batch."""
    s = found_in_caches(served(2 * 0.75 * capacity_rps(), 0.4, waiting=12), shares)
    came = s.fleet.slices[0].offered_tokens
    prompts = moments((computed * came, 0.0, 0.0, 0.0, 1.0))
    slices = tuple(
        replace(
            each,
            steps={StepClass.PREFILL_ONLY: prompts},
            counters=dict(each.counters)
            | {
                Counter.PROMPT_TOKENS_RECEIVED: came * (1.0 + batch),
                Counter.BATCH_TOKENS_RECEIVED: came * batch,
            },
        )
        for each in s.fleet.slices
    )
    return replace(s, fleet=replace(s.fleet, slices=slices))


@pytest.mark.parametrize(
    ("computed", "shares", "batch", "is_learned"),
    [
        (1.2, (0.0, 0.0), 0.0, False),
        (0.8, (0.0, 0.0), 0.0, True),
        (0.4, (0.8, 0.8), 0.0, False),  # it is more than caches leave
        (0.25, (0.8, 0.71), 0.0, True),  # and here less, of what has come lately
        (1.2, (0.0, 0.0), 0.5, True),  # whose prompts are computed, nobody can tell
    ],
)
def test_nor_is_one_that_the_fleet_clears_by_itself(
    computed: float, shares: tuple[float, float], batch: float, is_learned: bool
) -> None:
    """Before another replica would serve: it is no backlog, and late are all who stand in it."""
    s = queued(computed, shares=shares, batch=batch)
    assert backlog_rps(s) == 0
    assert learns(s) is is_learned


def test_nor_can_anybody_tell_while_batch_requests_wait() -> None:
    s = queued(1.2)
    first, *others = s.fleet.pods
    pods = (replace(first, batch_waiting=1), *others)
    assert not late_from_before(understand(s.policy, replace(s.fleet, pods=pods), s.memory, NOW))
    assert late_from_before(s)


def test_it_falls_at_once_to_what_was_measured_and_rises_in_steps() -> None:
    """20 % late instead of 3.5 %: (0.035 / 0.2)^(1 / 4.7) of the rate is what a replica carries."""
    late = served(2 * 0.95 * capacity_rps(), 0.80)
    assert after(late) / 0.95 == pytest.approx(0.175 ** (1 / 4.7), rel=0.05)
    early = served(2 * 0.95 * capacity_rps(), 1.0)
    assert after(early) == pytest.approx(RAISE_STEP)


@pytest.mark.behaviour(
    "what measured latency corrects the capacity by is bounded",
    report="ai-dynamo/dynamo#12751: a correction factor without bounds",
)
def test_it_is_bounded() -> None:
    s = served(2 * 0.95 * capacity_rps() * MOST_FACTOR, 1.0, factor=MOST_FACTOR)
    assert after(s) <= MOST_FACTOR


def test_a_raised_capacity_never_passes_what_else_ends_it() -> None:
    """At a factor far above what the busy share allows, that share is the bound."""
    s = served(5.0, 1.0, factor=1000.0)
    assert s.capacity is not None
    rps, limit = s.capacity
    assert limit in (Bound.PREFILL, Bound.ITL, Bound.SEQUENCES, Bound.KV)
    assert capacity_rps() < rps < 3 * capacity_rps()


def test_a_cut_holds_whatever_bounds() -> None:
    assert served(5.0, 1.0, factor=0.5).capacity == pytest.approx(
        (0.5 * capacity_rps(), Bound.TTFT)
    )


def test_what_each_replica_carries_now_is_proven() -> None:
    """Up to what it carries and no farther, less where that much is late."""
    use_rps = 0.9 * capacity_rps()
    assert carried_rps(served(2 * use_rps, 1.0)) == pytest.approx(use_rps, rel=1e-6)
    late = carried_rps(served(2 * use_rps, 0.9))
    assert late is not None
    assert 0.6 * use_rps < late < 0.8 * use_rps
    assert carried_rps(served(0.05, 1.0)) is None  # 15 requests prove nothing


def test_no_model_makes_it_less() -> None:
    """A factor that fell with the model's error is overruled by what is carried in time."""
    use_rps = 0.9 * capacity_rps()
    found = need(served(2 * use_rps, 1.0, factor=0.3), feasible=True)
    assert found.capacity_rps == pytest.approx(use_rps, rel=1e-6)
    assert "what each carries now" in found.message
    # Neither that nor the factor is in what the model alone asks for.
    expected_rps = served(2 * use_rps, 1.0, factor=0.3).demand.forecast_rps
    assert found.uncorrected == pytest.approx(expected_rps / capacity_rps(), rel=1e-3)


@pytest.mark.parametrize(
    ("shares", "computed", "is_learned"),
    [
        ((0.8, 0.8), (0.20, 0.20), True),
        ((0.8, 0.75), (0.21, 0.21), True),  # less than chance may be
        ((0.8, 0.6), (0.24, 0.40), False),
        ((0.8, 0.0), (0.36, 1.00), False),
        ((0.0, 0.1), (0.98, 0.98), True),
        ((0.0, 0.8), (0.84, 0.20), False),
    ],
)
def test_what_was_carried_while_caches_held_more_is_carried_by_as_much_less(
    shares: tuple[float, float], computed: tuple[float, float], is_learned: bool
) -> None:
    """Of what is computed of a prompt, then and now; what caches hold now only adds to it."""
    then, now = computed
    rps = 2 * 0.9 * capacity_rps()
    s = found_in_caches(served(rps, 1.0), shares)
    assert s.plant.workload.computed_share == pytest.approx(now, rel=1e-6)
    assert carried_rps(s) == pytest.approx(rps / 2 / max(1.0, now / then), rel=1e-6)
    assert learns(s) is is_learned


def test_prompts_that_caches_no_longer_hold_ask_for_replicas() -> None:
    held, lost = (
        need(found_in_caches(served(2 * 0.9 * capacity_rps(), 1.0), shares), feasible=True)
        for shares in ((0.8, 0.8), (0.8, 0.0))
    )
    assert lost.capacity_rps == pytest.approx(capacity_rps(), rel=0.05)
    assert lost.wanted > held.wanted


def test_cold_prompts_of_a_batch_tier_take_nothing_from_what_is_carried() -> None:
    rps = 2 * 0.9 * capacity_rps()
    s = found_in_caches(served(rps, 1.0), (0.8, 0.0))
    newest = s.fleet.slices[-1]
    counters = dict(newest.counters) | {Counter.BATCH_TOKENS_RECEIVED: 1.0}
    slices = (*s.fleet.slices[:-1], replace(newest, counters=counters))
    mixed = understand(s.policy, replace(s.fleet, slices=slices), s.memory, NOW)
    assert carried_rps(mixed) == pytest.approx(rps / 2, rel=1e-3)


@pytest.mark.parametrize(("good", "replicas"), [(0.99, 1), (0.99, 2), (0.96, 1)])
def test_fewer_replicas_would_be_late_by_the_power_law(good: float, replicas: int) -> None:
    s = served(2 * 0.9 * capacity_rps(), good)
    expected = (1 - good) * (2 / replicas) ** GROWTH / 0.05
    assert late_share_with(s, replicas) == pytest.approx(expected, rel=1e-6)


def test_nothing_steady_says_nothing_of_fewer_replicas() -> None:
    assert late_share_with(served(0.05, 1.0), 1) is None


def test_a_fleet_that_is_half_seen_teaches_nothing() -> None:
    """The rate of those that answer, over all that serve, is no rate of a replica."""
    s = served(2 * 0.95 * capacity_rps(), 0.80)
    first, *others = s.fleet.pods
    dark = replace(s.fleet, pods=(replace(first, data=DataClass.STALE), *others))
    blind = understand(s.policy, dark, s.memory, NOW)
    assert after(s) < 1.0
    assert after(blind) == 1.0
    assert carried_rps(blind) is None


def test_what_no_replica_gives_in_time_keeps_none() -> None:
    s = served(2 * 0.5 * capacity_rps(), 0.0)
    assert late_share_with(s, 1) is not None
    hopeless = understand(
        replace(s.policy, objectives=auto(1, 100).objectives), s.fleet, s.memory, NOW
    )
    assert hopeless.attainable[0] is None
    assert late_share_with(hopeless, 1) is None
