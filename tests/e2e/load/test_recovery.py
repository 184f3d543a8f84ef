"""Recovery over hand-made runs: one request each tenth of a second from 0 to 60 s."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.load.record import Outcome, Record
from e2e.load.recovery import Objective, Series, recovery_s
from tests.e2e.load.making import record

TTFT = Objective(metric="TTFT", target_ms=500.0)
ITL = Objective(metric="ITL", target_ms=50.0)


def run(
    late: Callable[[float], bool], refused: Callable[[float], bool] | None = None
) -> list[Record]:
    records = []
    for tenth in range(600):
        at = tenth / 10
        if refused is not None and refused(at):
            records.append(record(at, None, outcome=Outcome.REFUSED, waited_s=0.01))
        else:
            records.append(record(at, 900.0 if late(at) else 100.0, 20.0, 20.0))
    return records


def never(_at: float) -> bool:
    return False


def recovered(records: list[Record], *objectives: Objective, until_s: float = 60.0) -> float | None:
    return recovery_s(
        records, objectives or (TTFT,), changed_s=10.0, until_s=until_s, window_s=10.0
    )


def test_what_never_failed_recovered_at_once() -> None:
    assert recovered(run(never)) == 0.0


def test_lateness_before_the_change_does_not_count() -> None:
    assert recovered(run(lambda at: at < 10.0)) == 0.0


def test_recovery_is_the_end_of_lateness_less_what_a_window_forgives() -> None:
    # Of the 100 requests of a window, 8 late ones are consistent with 95 %, 9 are not:
    # so the window must begin at most 0.8 s before lateness ends at 30 s.
    late = [record(at, 900.0) for at in (0.1 * k for k in range(9))]
    good = [record(5.0, 100.0)] * 91
    assert not TTFT.allows(TTFT.series(late + good).window(0.0, 10.0))
    assert TTFT.allows(TTFT.series(late[1:] + good).window(0.0, 10.0))
    assert recovered(run(lambda at: 10.0 <= at < 30.0)) == 20.0
    assert recovered(run(lambda at: 10.0 <= at < 30.85)) == 21.0
    assert recovered(run(lambda at: 10.0 <= at < 30.75)) == 20.0


def test_a_good_spell_between_two_bad_ones_is_no_recovery() -> None:
    assert recovered(run(lambda at: 10.0 <= at < 15.0 or 38.0 <= at < 40.0)) == 30.0


def test_refusals_are_misses() -> None:
    assert recovered(run(never, refused=lambda at: 10.0 <= at < 22.0)) == 12.0


def test_what_ends_badly_has_not_recovered() -> None:
    assert recovered(run(lambda at: at >= 58.0)) is None


def test_time_shorter_than_a_window_tells_nothing() -> None:
    assert recovered(run(never), until_s=19.9) is None
    assert recovered(run(never), until_s=20.0) == 0.0


def test_every_objective_must_hold() -> None:
    slow = [record(at / 10, 100.0, *[80.0 if at < 400 else 20.0] * 3) for at in range(600)]
    assert recovered(slow) == 0.0
    itl = recovered(slow, TTFT, ITL)
    assert itl is not None
    assert 29.0 <= itl <= 31.0
    assert recovered(slow, ITL) == itl


def test_an_idle_window_breaks_no_promise() -> None:
    assert recovered([record(12.0, 900.0)] * 20 + [record(12.0, 100.0)] * 5) == 3.0
    assert recovered([]) == 0.0


@given(
    st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=60),
    st.integers(0, 50),
    st.integers(0, 50),
)
def test_series_count_what_lies_in_the_window(
    samples: list[tuple[int, bool]], first: int, second: int
) -> None:
    low, high = sorted((first, second))
    times = sorted(at for at, _ in samples)
    window = Series(samples, times).window(low, high)
    inside = [good for at, good in samples if low <= at < high]
    assert (window.good, window.total, window.n) == (sum(inside), len(inside), len(inside))


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_the_wanted_share_decides(share: float) -> None:
    series = TTFT.series([record(0, 900.0)] * 20 + [record(0, 100.0)] * 80)
    asked = Objective(metric="TTFT", target_ms=500.0, share=share)
    assert asked.allows(series.window(0, 1)) is (share < 0.86)
