"""Targets on machines slower than the one they were chosen on."""

import pytest

from e2e.demo.calibration import (
    QUESTION,
    REFERENCE_FIRST_MS,
    REFERENCE_GAP_MS,
    Probe,
    factor,
    load_factor,
    rate,
    scaled,
)


@pytest.mark.parametrize(
    ("first", "gap", "expected"),
    [
        (1.0, 1.0, 1.0),
        (1.2, 1.1, 1.0),
        (0.9, 0.85, 1.0),
        (0.3, 0.2, 0.3),
        (2.0, 1.0, 2.0),
        (0.53, 0.8, 0.53),  # prompts became twice as fast, decoding did not
        (0.3, 1.0, 0.45),
        (1.0, 1.5, 1.0),
    ],
)
def test_only_other_machines_get_other_targets(first: float, gap: float, expected: float) -> None:
    probe = Probe(first_ms=REFERENCE_FIRST_MS * first, gap_ms=REFERENCE_GAP_MS * gap)
    assert factor(probe) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("first", "gap", "expected"), [(0.53, 0.85, 0.85), (0.5, 0.7, 0.7), (1.0, 1.5, 1.5)]
)
def test_the_load_is_what_the_slower_of_both_carries(
    first: float, gap: float, expected: float
) -> None:
    probe = Probe(first_ms=REFERENCE_FIRST_MS * first, gap_ms=REFERENCE_GAP_MS * gap)
    assert load_factor(probe) == pytest.approx(expected)


def test_targets_grow_together() -> None:
    assert scaled({"ttft": 4000, "itl": 333}, 1.5) == {"ttft": 6000, "itl": 500}
    assert scaled({"ttft": 4001, "itl": 333}, 1.0) == {"ttft": 4001, "itl": 333}


@pytest.mark.parametrize(("by", "expected"), [(1.0, 0.9), (1.5, 0.6), (0.5, 1.8)])
def test_a_slower_machine_gets_less_load(by: float, expected: float) -> None:
    assert rate(0.9, by) == pytest.approx(expected)


def test_no_two_questions_begin_alike() -> None:
    asked = [QUESTION.format(n) for n in range(5)]
    assert len({each[:2] for each in asked}) == 5
    assert all(each.count("river") == 8 for each in asked)
