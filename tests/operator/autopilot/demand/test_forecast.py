from __future__ import annotations

import random
from dataclasses import replace

import pytest

from paceline_operator.autopilot.demand.forecast import KNOWN_SIGMAS, Demand, Past, forecast
from paceline_operator.autopilot.plant.workload import Workload
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.autopilot.vocabulary.memory import Minute
from paceline_operator.autopilot.vocabulary.window import Counter, Window
from tests.operator.autopilot.build import fleet, window

WORK = Workload(prompt_mean=100.0)


def offered(*rates: float) -> FleetObservation:
    """Slices of 5 s with these rates of requests of 100 tokens, oldest first."""

    def cut(place: int, rate: float) -> Window:
        start_s = 5.0 * place
        return window(start_s, start_s + 5, counters={Counter.PROMPT_TOKENS_RECEIVED: 500 * rate})

    return fleet(slices=tuple(cut(n, r) for n, r in enumerate(rates)))


def expected(*rates: float, memory_s: float = 60.0) -> Demand:
    return forecast(offered(*rates), WORK, horizon_s=30.0, memory_s=memory_s)


def test_nothing_offered_is_nothing_expected() -> None:
    assert expected(*[0.0] * 24) == Demand()
    assert forecast(fleet(), WORK, horizon_s=30.0, memory_s=60.0) == Demand()


def test_steady_load_is_expected_to_go_on_with_an_allowance_for_chance() -> None:
    found = expected(*[10.0] * 24)
    assert found.now_rps == pytest.approx(10.0)
    assert 10.0 < found.forecast_rps < 11.5
    assert not found.surging


def test_a_step_counts_at_once_for_what_it_proves() -> None:
    found = expected(*[10.0] * 23, 30.0)
    assert found.surging
    # 150 requests in 5 s; slices differ only once, by the step, which is no chance.
    assert found.dispersion == 1.0
    assert found.now_rps == pytest.approx(30.0 - (30.0 / 5.0) ** 0.5, rel=1e-3)
    later = expected(*[10.0] * 21, *[30.0] * 3)
    assert found.forecast_rps < later.forecast_rps < 31.0


def test_chance_is_no_step() -> None:
    assert not expected(*[1.0] * 23, 1.8).surging


def test_a_ramp_is_carried_on() -> None:
    rates = [10.0 + 0.3 * n for n in range(60)]
    found = expected(*rates, memory_s=300.0)
    assert not found.surging
    # The line is at 27.8 now and at 29.6 in half a minute, give or take 0.6.
    assert 28.5 < found.forecast_rps < 31.0
    assert found.forecast_rps > expected(*[27.7] * 60, memory_s=300.0).forecast_rps


def test_a_gentle_slope_is_known_by_the_minutes_before() -> None:
    """Five minutes do not prove that 10/s become 13 in ten; ten minutes do."""
    rates = [10.0 + 0.025 * n for n in range(120)]
    recent = offered(*[0.0] * 60, *rates[60:])
    recent = replace(recent, slices=recent.slices[60:])
    minutes = tuple(
        Minute(start_s=60.0 * n, end_s=60.0 * n + 60.0, tokens=500.0 * sum(rates[12 * n :][:12]))
        for n in range(5)
    )
    long, short = (
        forecast(recent, WORK, horizon_s=300.0, memory_s=300.0, past=Past(minutes=known))
        for known in (minutes, ())
    )
    assert short.carried_rps < short.level_rps < 13.0 < long.carried_rps < 14.5


def test_a_step_is_no_slope() -> None:
    """The line through 10 and then 30 would be at 42 half a minute from now."""
    after = expected(*[10.0] * 30, *[30.0] * 30, memory_s=300.0)
    assert after.carried_rps == 0.0
    assert 28.5 < after.forecast_rps < 31.5


def test_a_surge_that_was_seen_is_no_slope_either() -> None:
    """A small step looks like a line, until one knows of it."""
    rates = [*[10.0] * 40, *[13.0] * 20]
    seen, known = (
        forecast(offered(*rates), WORK, horizon_s=300.0, memory_s=300.0, past=past)
        for past in (Past(), Past(surged_at_s=200.0))
    )
    assert seen.carried_rps > 13.5
    assert known.carried_rps < 13.0


def test_a_line_goes_no_farther_ahead_than_it_comes_from() -> None:
    rates = [10.0 + 0.1 * n for n in range(60)]
    near, far = (
        forecast(offered(*rates), WORK, horizon_s=horizon_s, memory_s=300.0).carried_rps
        for horizon_s in (300.0, 900.0)
    )
    assert near == far


def test_long_prompts_are_no_surge_of_what_a_kv_cache_holds() -> None:
    """Ten times as many tokens in as many requests, where answers are what fills the cache."""

    def seen(prompt_share: float) -> Demand:
        slices = [
            window(5.0 * n, 5.0 * n + 5.0, counters={
                Counter.REQUESTS_RECEIVED: 50.0,
                Counter.PROMPT_TOKENS_RECEIVED: 50_000.0 if n == 59 else 5000.0,
            })
            for n in range(60)
        ]  # fmt: skip
        return forecast(
            fleet(slices=tuple(slices)), WORK, horizon_s=135.0, memory_s=300.0,
            prompt_share=prompt_share,
        )  # fmt: skip

    assert seen(1.0).forecast_rps > 50.0
    assert seen(0.1).forecast_rps < 20.0
    assert seen(0.0).forecast_rps == pytest.approx(seen(0.0).level_rps, rel=0.05)


def test_one_heavy_burst_orders_little() -> None:
    """Twice the rate for 5 s is what prompts of mixed lengths bring by chance."""
    mixed = Workload(prompt_mean=100.0, prompt_cv2=1.7)
    quiet = forecast(offered(*[4.0] * 60), mixed, horizon_s=135.0, memory_s=300.0)
    burst = forecast(offered(*[4.0] * 59, 8.0), mixed, horizon_s=135.0, memory_s=300.0)
    assert burst.forecast_rps < 1.25 * quiet.forecast_rps


def test_a_fall_is_believed_once_it_is_proven() -> None:
    """The down window remembers what was needed; the forecast need not."""
    assert expected(*[20.0] * 57, *[16.0] * 3, memory_s=300.0).forecast_rps > 19
    assert expected(*[20.0] * 57, *[5.0] * 3, memory_s=300.0).forecast_rps < 8


@pytest.mark.parametrize("slice_s", [5.02, 7.0, 10.1, 15.02, 30.1, 61.0])
def test_slices_of_any_length_tell_of_the_same_load(slice_s: float) -> None:
    """A stretch shorter than a slice was not measured: nothing has fallen in it."""
    count = int(300 / slice_s) + 1
    slices = tuple(
        window(
            slice_s * n,
            slice_s * (n + 1),
            counters={Counter.PROMPT_TOKENS_RECEIVED: 1000.0 * slice_s},
        )
        for n in range(count)
    )
    found = forecast(fleet(slices=slices), WORK, horizon_s=30.0, memory_s=300.0)
    assert found.now_rps == pytest.approx(10.0)
    assert 10.0 < found.forecast_rps < 11.5


def test_what_comes_back_after_a_silence_counts_at_once() -> None:
    """The step from nothing is no measure of chance: ten seconds of it prove nearly all."""
    found = expected(*[0.0] * 58, 8.0, 8.0, memory_s=300.0)
    assert found.dispersion == 1.0
    assert 7.0 < found.forecast_rps < 8.0


def test_a_queue_proves_a_surge_that_by_itself_could_be_chance() -> None:
    """4.7 standard deviations above what came before: a step where prompts wait as well."""
    seen = offered(*[10.0] * 58, 14.7, 14.7)
    idle, queued = (
        forecast(seen, WORK, horizon_s=30.0, memory_s=300.0, is_queued=is_queued)
        for is_queued in (False, True)
    )
    assert idle.level_rps < queued.level_rps < 14.7
    calm = offered(*[10.0] * 60)
    assert forecast(calm, WORK, horizon_s=30.0, memory_s=300.0, is_queued=True) == forecast(
        calm, WORK, horizon_s=30.0, memory_s=300.0
    )


@pytest.mark.parametrize(
    ("before_rps", "now_rps", "is_step"),
    [
        pytest.param(0.2, 1.4, False, id="seven requests of the mean size, or a long prompt"),
        pytest.param(0.2, 2.4, True, id="twelve"),
        pytest.param(20.0, 29.0, True, id="of many requests half as many more are enough"),
    ],
)
def test_few_requests_prove_less(before_rps: float, now_rps: float, is_step: bool) -> None:
    """Within 5 s, where prompts wait: without the skewness of chance five more would do."""
    level_rps = queued_level_rps(before_rps, now_rps, WORK)
    sure_rps = now_rps - KNOWN_SIGMAS * (now_rps / 5.0) ** 0.5
    assert (level_rps == pytest.approx(sure_rps)) is is_step


def test_prompts_that_vary_prove_less() -> None:
    """The work that comes in five seconds is as lopsided as prompts are."""
    varied = replace(WORK, prompt_cv2=1.0)
    assert queued_level_rps(0.2, 2.4, varied) < 0.5 < queued_level_rps(0.2, 2.4, WORK)


def queued_level_rps(before_rps: float, now_rps: float, work: Workload) -> float:
    """What is proven after five seconds of another rate, where prompts wait."""
    seen = offered(*[before_rps] * 59, now_rps)
    return forecast(seen, work, horizon_s=30.0, memory_s=300.0, is_queued=True).level_rps


def test_clustered_arrivals_prove_less() -> None:
    """Rates that swing from slice to slice: one more high one is nothing new."""
    swinging = [4.0, 16.0] * 30
    even, found = expected(*[10.0] * 59, 20.0), expected(*swinging[:-1], 20.0)
    assert found.dispersion > 5 > even.dispersion
    assert not found.surging
    assert even.surging


def test_a_gap_in_the_measurements_is_no_silence() -> None:
    seen = offered(*[10.0] * 24)
    holed = fleet(slices=tuple(w for n, w in enumerate(seen.slices) if not 10 <= n < 14))
    found = forecast(holed, WORK, horizon_s=30.0, memory_s=60.0)
    assert found.now_rps == pytest.approx(10.0)


def test_a_few_seconds_count_for_no_more_than_they_prove() -> None:
    """After a restart they are all there is; a whole minute of a window of one is a mean."""
    few, many = expected(12.0, 8.0), expected(*[12.0, 8.0] * 6)
    assert few.forecast_rps < many.forecast_rps
    assert few.now_rps == pytest.approx(10.0)


def test_work_of_the_batch_tier_is_not_expected() -> None:
    def slices(batch: float) -> FleetObservation:
        tokens = {
            Counter.PROMPT_TOKENS_RECEIVED: 5000.0 + batch,
            Counter.BATCH_TOKENS_RECEIVED: batch,
        }
        return fleet(slices=tuple(window(5.0 * n, 5.0 * n + 5, counters=tokens) for n in range(24)))

    alone, beside = (
        forecast(slices(batch), WORK, horizon_s=30.0, memory_s=60.0) for batch in (0.0, 50_000.0)
    )
    assert beside == alone


def cut(lengths_s: list[float], rps: float, draw: random.Random) -> FleetObservation:
    """Slices of these lengths with the arrivals of a Poisson process of single requests."""
    made, start_s = [], 0.0
    for length_s in lengths_s:
        count, at_s = 0, draw.expovariate(rps)
        while at_s < length_s:
            count, at_s = count + 1, at_s + draw.expovariate(rps)
        tokens = {Counter.PROMPT_TOKENS_RECEIVED: 100.0 * count}
        made.append(window(start_s, start_s + length_s, counters=tokens))
        start_s += length_s
    return fleet(slices=tuple(made))


@pytest.mark.parametrize("lengths_s", [[5.0] * 60, [5.0, 15.0] * 15, [5.0, 5.0, 10.0, 1.0] * 14])
def test_slices_of_unequal_length_are_no_clusters(lengths_s: list[float]) -> None:
    """An even load that is measured in rounds of any length is as even as it is."""
    draw = random.Random(1)
    found = [
        forecast(cut(lengths_s, 20.0, draw), WORK, horizon_s=30.0, memory_s=300.0)
        for _ in range(20)
    ]
    assert sum(each.dispersion for each in found) / len(found) < 1.25
