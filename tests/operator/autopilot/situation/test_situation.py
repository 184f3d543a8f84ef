from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from paceline_operator.api.v1alpha1 import Mode, SloMetric
from paceline_operator.autopilot.feasibility import judge
from paceline_operator.autopilot.learning import learned
from paceline_operator.autopilot.replicas.feedback import feedback
from paceline_operator.autopilot.situation.situation import Situation, understand
from paceline_operator.autopilot.vocabulary.arbitration import Cause
from paceline_operator.autopilot.vocabulary.fleet import DataClass, Tunables, classify
from paceline_operator.autopilot.vocabulary.memory import Memory
from paceline_operator.autopilot.vocabulary.policy import Objective, Policy
from paceline_operator.autopilot.vocabulary.window import SloCounts, StepClass, Window, slo_key
from tests.operator.autopilot.build import ITL, auto, fleet, moments, pod, window

Step = tuple[float, float, float, float, float]


def seen(decode: Sequence[Step], mixed: Sequence[Step], bad: int = 30) -> Situation:
    """A minute of these steps every five seconds, 70 gaps of each within the target."""

    def cut(number: int) -> Window:
        return window(
            940.0 + 5 * number,
            945.0 + 5 * number,
            steps={StepClass.DECODE_ONLY: moments(*decode), StepClass.MIXED: moments(*mixed)},
            slo={slo_key(ITL, "ITL", 100): SloCounts(70, bad)},
        )

    observed = fleet(slices=tuple(cut(n) for n in range(12)))
    policy = auto()
    return understand(policy, observed, learned(policy, observed, Memory(), 1000.0), 1000.0)


FAST: list[Step] = [(0, 8, 4000, 0, 0.03)] * 40
SLOW: list[Step] = [(0, 60, 30000, 0, 0.13)] * 40
STALL: list[Step] = [(0, 8, 4000, 0, 2.0)]
CHUNKS: list[Step] = [(500, 8, 4000, 1e5, 0.4)] * 8
SMALL: list[Step] = [(50, 8, 4000, 1e4, 0.05)] * 8


@pytest.mark.parametrize(
    ("decode", "mixed", "bad", "cause"),
    [
        (FAST, CHUNKS, 0, Cause.NONE),
        (FAST, CHUNKS, 30, Cause.PREFILL),
        (SLOW, SMALL, 30, Cause.DECODE),
        (FAST, SMALL, 30, Cause.UNKNOWN),
        (FAST + STALL, SMALL, 30, Cause.UNKNOWN),
    ],
)
def test_the_cause_of_missed_itl(
    decode: list[Step], mixed: list[Step], bad: int, cause: Cause
) -> None:
    assert seen(decode, mixed, bad).cause is cause


@pytest.mark.parametrize(
    ("classes", "share", "whole"),
    [
        ("", 0.5, DataClass.ABSENT),
        ("aa", 0.5, DataClass.ABSENT),
        ("fa", 0.5, DataClass.FRESH),
        ("fss", 0.5, DataClass.STALE),
        ("sa", 0.5, DataClass.STALE),
        ("fffs", 0.8, DataClass.STALE),
        ("ffffs", 0.8, DataClass.FRESH),
    ],
)
def test_freshness_of_a_fleet(classes: str, share: float, whole: DataClass) -> None:
    short = {"f": DataClass.FRESH, "s": DataClass.STALE, "a": DataClass.ABSENT}
    assert classify([short[c] for c in classes], share) is whole


def test_the_cap_is_the_largest_budget_within_the_target() -> None:
    s = seen(FAST, CHUNKS + SMALL)
    assert s.cap is not None
    allowed_ms = (1 - s.margin) * 100
    assert s.plant.full_ms(s.cap) <= allowed_ms < s.plant.full_ms(s.cap + s.ladder().step)


def objective(metric: SloMetric, target_ms: int, percentile: int) -> Objective:
    return Objective(
        name=f"{metric}-{percentile}", metric=metric, target_ms=target_ms, percentile=percentile
    )


@pytest.mark.parametrize(
    ("median_ms", "tail_ms", "target_ms", "share"),
    [(50, 200, 200.0, 0.95), (None, 200, 200.0, 0.95), (50, None, 50.0, 0.50)],
)
def test_a_median_is_not_taken_for_a_tail(
    median_ms: int | None, tail_ms: int | None, target_ms: float, share: float
) -> None:
    given = {50: median_ms, 95: tail_ms}
    wanted = Policy(
        objectives=tuple(
            objective(metric, ms, percentile)
            for metric in (SloMetric.TTFT, SloMetric.ITL)
            for percentile, ms in given.items()
            if ms is not None
        )
    )
    s = understand(wanted, fleet(), Memory(), 1000.0)
    assert (s.ttft_target_ms, s.itl_target_ms) == (target_ms, target_ms)
    assert s.terms(512).ttft_share == share


def test_an_untrusted_model_declares_no_target_unattainable() -> None:
    s = understand(auto(1, 1), fleet(), Memory(), 1000.0)
    assert not s.model_trusted
    assert s.attainable == (1.0, 1.0)


def test_where_no_budget_fits_the_one_in_force_is_what_replicas_are_sized_for() -> None:
    slow = [(size, 10.0, 2000.0, 100.0 * size, 3e-3 * size) for size in (90.0, 100.0, 110.0)]
    s = seen([(0.0, 10.0, 2000.0, 0.0, 0.02)] * 20, slow * 5, bad=0)
    assert s.cap is None
    assert s.settled_budget == s.knobs.max_num_batched_tokens > s.cap_or_floor
    assert s.coming_budget == s.knobs.max_num_batched_tokens


@pytest.mark.parametrize(
    ("bound", "share"),
    [("", 1.0), ("prefill", 1.0), ("ttft", 1.0), ("kv", 0.5), ("sequences", 0.0), ("itl", 0.0)],
)
def test_what_bounds_a_replica_says_what_of_a_request_is_work(bound: str, share: float) -> None:
    """Prompts and answers are taken to be alike while none was seen."""
    s = understand(auto(), fleet(), Memory(bound=bound), 1000.0)
    assert s.prompt_share == pytest.approx(share)


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.RECOMMEND])
@pytest.mark.parametrize("is_paced", [True, False])
def test_a_budget_that_nobody_moves_is_what_replicas_are_sized_for(
    mode: Mode, is_paced: bool
) -> None:
    """Neither a cap nor a step time that is only recommended sizes the steps of engines."""
    mixed = [(size, 8.0, 4000.0, 0.0, (10 + 0.1 * size) / 1e3) for size in (100.0, 400.0, 700.0)]
    free = seen(FAST, mixed * 5, bad=0)
    given = replace(free.policy, tuning_mode=mode, is_paced=is_paced)
    knobs = Tunables(max_num_batched_tokens=2048, max_num_running_seqs=64)
    s = understand(given, replace(free.fleet, desired_tunables=knobs), free.memory, 1000.0)
    assert s.cap is not None
    assert s.cap < 2048
    assert s.settled_budget == s.coming_budget == 2048
    told = replace(knobs, step_time_target_ms=90.0)
    paced = understand(given, replace(free.fleet, desired_tunables=told), free.memory, 1000.0)
    assert paced.settled_budget == paced.cap
    slow = replace(free.fleet, desired_tunables=replace(knobs, step_time_target_ms=45.0))
    kept = understand(given, slow, free.memory, 1000.0)
    assert kept.plant.full_ms(kept.settled_budget) == pytest.approx(45.0, rel=0.05)
    none = replace(free.fleet, desired_tunables=replace(knobs, step_time_target_ms=0.9))
    least = understand(given, none, free.memory, 1000.0)
    assert least.settled_budget == least.coming_budget == 16 + 8


@pytest.mark.parametrize(("created_s", "since_s"), [(970.0, 1000.0), (100.0, 940.0)])
def test_a_pod_that_was_only_unready_brings_nothing_new(created_s: float, since_s: float) -> None:
    base = seen(FAST, SMALL, bad=0)
    flipped = pod(2, created_s=created_s, ready_since_s=980.0)
    s = replace(base, fleet=replace(base.fleet, pods=(pod(1), flipped)))
    assert s.capacity_since_s(60.0) == since_s


def test_one_start_that_waited_for_a_node_is_not_how_pods_start() -> None:
    s = understand(auto(), fleet(), Memory(cold_starts_s=(60.0, 58.0, 900.0, 61.0)), 1000.0)
    assert (s.cold_start_s, s.usual_start_s) == (180.0, 60.0)
    assert understand(auto(), fleet(), Memory(), 1000.0).usual_start_s == 15.0


ALONE: list[Step] = [(0, 1, 500, 0, 0.025)] * 40


def wanting(*objectives: Objective, counts: dict[str, SloCounts] | None = None) -> Situation:
    """Two replicas that decode at 30 ms, some steps with prompts beside it."""
    wanted = replace(auto(None, None), objectives=objectives)
    slices = tuple(
        window(
            940.0 + 5 * n,
            945.0 + 5 * n,
            steps={
                StepClass.DECODE_ONLY: moments(*FAST, *ALONE),
                StepClass.MIXED: moments(*CHUNKS, *SMALL),
            },
            slo=counts or {},
        )
        for n in range(12)
    )
    observed = fleet(slices=slices)
    return understand(wanted, observed, learned(wanted, observed, Memory(), 1000.0), 1000.0)


def test_of_two_targets_on_gaps_one_that_nothing_meets_hides_the_other_not() -> None:
    hopeless, other = (objective(SloMetric.ITL, ms, p) for ms, p in ((5, 90), (100, 95)))
    counts = {slo_key(hopeless.name, "ITL", 5): SloCounts(0, 100),
              slo_key(other.name, "ITL", 100): SloCounts(100, 0)}  # fmt: skip
    s = wanting(hopeless, other, counts=counts)
    assert (s.itl_objectives, s.itl_target_ms, s.attainable[1]) == ((other,), 100.0, 100.0)
    assert (s.cause, s.itl_violated) == (Cause.NONE, False)
    found = judge(s)
    assert found.feasible is False
    assert "the ITL target is 5 ms" in found.message
    alone = wanting(hopeless, counts=counts)
    assert (alone.itl_objectives, alone.itl_target_ms) == ((hopeless,), 5.0)


@pytest.mark.behaviour(
    "of several objectives on first tokens one that no replica can hold is said, and the fleet "
    "is sized for the others",
    report="the strictest alone was looked at: replicas came for the other one, and none ever left",
)
def test_of_two_targets_on_first_tokens_one_that_nothing_meets_is_not_chased() -> None:
    loose, hopeless = (objective(SloMetric.TTFT, ms, p) for ms, p in ((4000, 90), (30, 99)))
    late = {slo_key(hopeless.name, "TTFT", 30): SloCounts(0, 100),
            slo_key(loose.name, "TTFT", 4000): SloCounts(100, 0)}  # fmt: skip
    s = wanting(loose, hopeless, counts=late)
    assert s.model_trusted
    assert (s.ttft_objectives, s.attainable[0], s.terms(512).ttft_share) == ((loose,), 4000.0, 0.9)
    assert s.late == ()
    assert not s.ttft_violated
    assert "the TTFT target is 30 ms" in judge(s).message
    assert feedback(s, model=1, feasible=False) is None
