from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from paceline_operator.autopilot.vocabulary.decision import Knob
from paceline_operator.simulator.result import Move, Result, Sample, recovery_s
from paceline_operator.simulator.scoring.outcome import Outcome


def result(*replicas: int, desired: tuple[int, ...] = ()) -> Result:
    """Replicas after each of the moves, one a minute; samples of `desired`, one a second."""
    moves = [
        Move(60.0 * place, Knob.REPLICAS, before, after, "")
        for place, (before, after) in enumerate(pairwise(replicas))
    ]
    moves.append(Move(1.0, Knob.BUDGET, 64, 32, ""))
    samples = [Sample(float(at), n, n, n, 64, 8, 0, 0) for at, n in enumerate(desired)]
    return Result(
        outcomes=[], refusals={}, cut=0, replica_seconds=0.0, length_s=1200.0,
        samples=samples, moves=moves,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("made", "most"),
    [
        ((), 0),
        (((0, 2), (60, 3), (120, 4)), 0),
        (((0, 2), (60, 1)), 1),
        (((0, 2), (60, 1), (120, 2), (180, 1)), 3),
        (((0, 2), (60, 1), (700, 2), (1400, 1)), 1),
        (((0, 2), (60, 1), (659, 2)), 2),
    ],
)
def test_reversals_are_counted_within_ten_minutes(
    made: tuple[tuple[float, int], ...], most: int
) -> None:
    before, moves = 1, []
    for time_s, after in made:
        moves.append(Move(time_s, Knob.REPLICAS, before, after, ""))
        before = after
    found = replace(result(1), moves=moves)
    assert found.most_reversals(Knob.REPLICAS) == most
    assert found.most_reversals(Knob.BUDGET) == 0


@pytest.mark.parametrize(
    ("desired", "share"), [((2, 6, 4, 4), 0.5), ((2, 3, 4), 0.0), ((), 0.0), ((0, 0), 0.0)]
)
def test_overshoot_is_the_peak_above_the_end(desired: tuple[int, ...], share: float) -> None:
    assert result(2, desired=desired).overshoot(0.0, 10.0) == share


def test_overshoot_looks_at_one_stretch_only() -> None:
    assert result(2, desired=(9, 2, 3, 2, 9)).overshoot(1.0, 4.0) == 0.5


def served(*late: tuple[float, float], until_s: float = 300.0) -> list[Outcome]:
    """One request a second; those sent in `late` stretches are bad."""
    seconds = [float(second) for second in range(int(until_s))]
    return [
        Outcome(at_s, "interactive", 9.0 if any(a <= at_s < b for a, b in late) else 0.1)
        for at_s in seconds
    ]


def recovered(outcomes: list[Outcome]) -> float | None:
    return recovery_s(outcomes, lambda o: (int((o.ttft_s or 9.0) < 1.0), 1), step_s=60.0, share=0.9)


def test_recovery_ends_with_the_last_bad_bin_before_a_minute_of_good_ones() -> None:
    assert recovered(served((60.0, 100.0))) == 45.0
    assert recovered(served((60.0, 100.0), (130.0, 132.0))) == 75.0
    assert recovered(served((60.0, 100.0), (200.0, 220.0))) == 45.0


def test_what_was_never_missed_recovers_at_once() -> None:
    assert recovered(served((0.0, 60.0))) == 0.0
    assert recovered(served(until_s=70.0)) == 0.0


def test_what_is_missed_to_the_end_never_recovers() -> None:
    assert recovered(served((60.0, 300.0))) is None
    assert recovered(served((60.0, 250.0))) is None
